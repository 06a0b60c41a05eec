"""ListTransactions: the filters of each version, and whose ids are told."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.groupcoord.consumer import regexes
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import list_transactions
from kavka.wire.apis.list_transactions import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import READS, MemoryBroker, scenario
from support.transaction_requests import add, begun, end, find

VERSIONS = range(API.lowest, API.highest + 1)


async def ask(broker: MemoryBroker, version: int, **filters: Any) -> Any:
    every: dict[str, Any] = {
        "state_filters": [],
        "producer_id_filters": [],
        "duration_filter": -1,
        "transactional_id_pattern": None,
    }
    return await broker.ask("ListTransactions", version, **(every | filters))


async def listed(broker: MemoryBroker, version: int, **filters: Any) -> list[str]:
    """Transactional ids."""
    answer = await ask(broker, version, **filters)
    assert answer.error_code == Code.NONE
    return sorted(one.transactional_id for one in answer.transaction_states)


async def fill(broker: MemoryBroker) -> dict[str, int]:
    """Four ids, a second apart; their producer ids."""
    await find(broker)
    begins = {name: await begun(broker, name) for name in ("idle", "open", "old", "done")}
    await add(broker, begins["old"], {"t": [0]}, "old")
    await broker.advance(1000)
    await add(broker, begins["open"], {"t": [0]}, "open")
    await add(broker, begins["done"], {"t": [0]}, "done")
    await end(broker, begins["done"], "done")
    return {name: producer.id for name, producer in begins.items()}


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_all(broker: MemoryBroker, version: int) -> None:
    assert await listed(broker, version) == []
    producers = await fill(broker)
    answer = await ask(broker, version)
    assert (answer.error_code, answer.unknown_state_filters) == (Code.NONE, [])
    found = {
        one.transactional_id: (one.producer_id, one.transaction_state)
        for one in answer.transaction_states
    }
    assert found == {
        "idle": (producers["idle"], "Empty"),
        "open": (producers["open"], "Ongoing"),
        "old": (producers["old"], "Ongoing"),
        "done": (producers["done"], "CompleteCommit"),
    }


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_by_state_and_producer(broker: MemoryBroker, version: int) -> None:
    producers = await fill(broker)
    assert await listed(broker, version, state_filters=["Ongoing"]) == ["old", "open"]
    states = ["Empty", "CompleteCommit", "Empty"]
    assert await listed(broker, version, state_filters=states) == ["done", "idle"]
    for known in ("Dead", "PrepareEpochFence", "PrepareAbort"):
        answer = await ask(broker, version, state_filters=[known])
        assert (answer.unknown_state_filters, answer.transaction_states) == ([], [])
    answer = await ask(broker, version, state_filters=["ongoing", "Empty", "what", "ongoing"])
    assert sorted(answer.unknown_state_filters) == ["ongoing", "what"], "case counts"
    assert [one.transactional_id for one in answer.transaction_states] == ["idle"]
    ids = [producers["old"], producers["idle"], 999]
    assert await listed(broker, version, producer_id_filters=ids) == ["idle", "old"]
    both = {"producer_id_filters": ids, "state_filters": ["Ongoing"]}
    assert await listed(broker, version, **both) == ["old"]


@pytest.mark.parametrize("version", VERSIONS[1:])
@scenario(topics={"t": 1})
async def test_by_duration(broker: MemoryBroker, version: int) -> None:
    await fill(broker)
    await broker.advance(500)
    ongoing = {"state_filters": ["Ongoing"]}
    assert await listed(broker, version, duration_filter=499, **ongoing) == ["old", "open"]
    assert await listed(broker, version, duration_filter=500, **ongoing) == ["old"]
    assert await listed(broker, version, duration_filter=1500, **ongoing) == []


@scenario(topics={"t": 1})
async def test_by_pattern(broker: MemoryBroker) -> None:
    await fill(broker)
    for nothing in (None, ""):
        everything = await listed(broker, 2, transactional_id_pattern=nothing)
        assert everything == ["done", "idle", "old", "open"]
    assert await listed(broker, 2, transactional_id_pattern="o.*") == ["old", "open"]
    assert await listed(broker, 2, transactional_id_pattern="o") == [], "a whole id is to match"
    answer = await ask(broker, 2, transactional_id_pattern="(")
    assert answer.error_code == Code.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_who_may_not_see_them(broker: MemoryBroker, version: int) -> None:
    await fill(broker)
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "open"), (Operation.DESCRIBE, "idle"))
    assert await listed(broker, version) == ["done", "old"]


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_not_while_they_are_loaded(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    await begun(broker)
    await broker.kill(holding=READS)
    answer = await ask(broker, version, state_filters=["what"])
    assert answer.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    assert (answer.unknown_state_filters, answer.transaction_states) == ([], [])
    broker.jobs.release()
    await broker.advance(0)
    assert await listed(broker, version) == ["tx"]


@pytest.mark.parametrize("pattern", [None, "id .*"])
@scenario()
async def test_many_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, pattern: str | None
) -> None:
    monkeypatch.setattr(list_transactions, "IDS_A_STEP", 3)
    monkeypatch.setattr(regexes, "NAMES_A_SLICE", 3)
    await find(broker)
    names = sorted(f"id {number}" for number in range(40))
    for name in names:
        await begun(broker, name)
    assert await listed(broker, 2, transactional_id_pattern=pattern) == names

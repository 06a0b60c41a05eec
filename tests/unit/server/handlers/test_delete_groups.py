"""DeleteGroups. See also the differential cases."""

from __future__ import annotations

import pytest

from kavka.groupcoord import listing
from kavka.wire.errors import ErrorCode as Code
from support.group_requests import joining, make_topic, occupy
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import until
from support.offset_requests import commit, fetch
from support.virtual import run_until_idle


async def delete(broker: MemoryBroker, *names: str, version: int = 2) -> dict[str, int]:
    """A code for each group, in the order of the answer."""
    answer = await broker.ask("DeleteGroups", version, groups_names=names)
    return {result.group_id: result.error_code for result in answer.results}


@pytest.mark.parametrize("count", [1, 4, 5, 9])
@scenario(topics={"a": 9})
async def test_while_something_takes_long(
    broker: MemoryBroker, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "OFFSETS_MAX", 4)
    await make_topic(broker)
    await commit(broker, {("a", index): 5 for index in range(count)})
    occupy(broker, monkeypatch)
    assert await delete(broker, "g", "nobody") == {"g": 0, "nobody": Code.GROUP_ID_NOT_FOUND}
    assert await fetch(broker) == {}


@scenario(topics={"a": 1})
async def test_a_coordinator_that_goes_before_it_is_done(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_topic(broker)
    await commit(broker, {("a", 0): 5})
    occupy(broker, monkeypatch)
    waiting = broker.client.send("DeleteGroups", 2, groups_names=["g"])
    await run_until_idle()
    assert not waiting.done()
    broker.parts.groups.close()
    await until(waiting.done, "an answer")
    assert waiting.result().results[0].error_code == Code.NOT_COORDINATOR


@scenario(topics={"a": 2500})
async def test_a_group_that_is_joined_meanwhile_keeps_all_or_nothing(broker: MemoryBroker) -> None:
    await make_topic(broker)
    for begin in range(0, 2500, 500):
        await commit(broker, {("a", index): 5 for index in range(begin, begin + 500)})
    deleting = broker.client.send("DeleteGroups", 2, groups_names=["g"])
    joined = joining(broker.connect(), 3)
    await until(deleting.done, "an answer")
    await broker.advance(10_000)
    assert deleting.result().results[0].error_code == Code.NONE
    assert joined.result().error_code == Code.NONE
    assert await fetch(broker) == {}

"""UpdateFeatures: a level that is set is durable, in force at once, and what clients learn."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths, storage
from support.memory_broker import MemoryBroker, scenario
from support.memory_transactions import Transactor

UPGRADE, SAFE, UNSAFE = 1, 2, 3
TRANSACTION, GROUP = "transaction.version", "group.version"
HIGHEST = {GROUP: 1, "metadata.version": 30, TRANSACTION: 2}


async def update(
    broker: MemoryBroker, name: str, level: int, upgrade_type: int, version: int = 2, **more: Any
) -> Any:
    feature_update = {"feature": name, "max_version_level": level, "upgrade_type": upgrade_type}
    request = {
        "timeout_ms": 1000,
        "feature_updates": [feature_update],
        "validate_only": False,
        **more,
    }
    return await broker.ask("UpdateFeatures", version, **request)


async def received(broker: MemoryBroker) -> tuple[dict[str, int], int]:
    """Levels of features as clients learn them, and their epoch."""
    software = {"client_software_name": "tester", "client_software_version": "1"}
    answer = await broker.ask("ApiVersions", 4, **software)
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return levels, answer.finalized_features_epoch


@scenario()
async def test_a_transaction_goes_on_over_a_downgrade(broker: MemoryBroker) -> None:
    """One of the newer protocol ends as it began: clients learn of a level when they connect."""
    await broker.create("t")
    producer = await Transactor(broker).init()
    assert (await producer.write()).code == Code.NONE
    await update(broker, TRANSACTION, 1, SAFE)
    assert await producer.end(commit=True) == Code.NONE
    older = await Transactor(broker, "older", version=9).init()
    assert await older.add() == [Code.NONE]
    assert (await older.write()).code == Code.NONE
    assert await older.end(commit=True) == Code.NONE


@scenario("kavka.transaction.version=1")
async def test_what_is_set_comes_before_the_setting(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await received(broker))[0][TRANSACTION] == 1
    assert (await update(broker, TRANSACTION, 2, UPGRADE)).error_code == Code.NONE
    await broker.restart()
    assert (await received(broker))[0][TRANSACTION] == 2
    assert "kavka.transaction.version has no effect" in caplog.text


@scenario()
async def test_a_change_by_another_hand_is_followed(broker: MemoryBroker) -> None:
    data = paths.encode_features({TRANSACTION: 1, "no.such": 3, GROUP: 9})
    await broker.parts.coordination.set(paths.FEATURE, data)
    await broker.advance(1)
    assert (await received(broker))[0] == {**HIGHEST, TRANSACTION: 1}
    await broker.parts.coordination.set(paths.FEATURE, b"no JSON")
    await broker.advance(1)
    assert (await received(broker))[0] == {**HIGHEST, TRANSACTION: 1}
    await update(broker, TRANSACTION, 0, SAFE)
    assert TRANSACTION not in (await received(broker))[0]
    await broker.parts.coordination.set(paths.FEATURE, paths.encode_features())
    await broker.advance(1)
    assert (await received(broker))[0] == HIGHEST


@scenario()
async def test_a_session_that_ends_fails_the_update(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fs.faults.append(Fault("sync", storage.LOG_NAME))
    answer = await update(broker, TRANSACTION, 1, SAFE)
    assert answer.error_code == Code.REQUEST_TIMED_OUT
    assert answer.error_message == "The session with the coordination service ended."
    answer = await update(broker, TRANSACTION, 1, SAFE)
    assert answer.error_code in (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT)
    assert "UpdateFeatures" not in caplog.text

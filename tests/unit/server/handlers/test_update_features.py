"""UpdateFeatures: a level that is set is durable, in force at once, and what clients are told."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.memory_transactions import Transactor

UPGRADE, SAFE, UNSAFE = 1, 2, 3
TRANSACTION, GROUP = "transaction.version", "group.version"
HIGHEST = {GROUP: 1, "metadata.version": 30, TRANSACTION: 2}


async def update(
    broker: MemoryBroker, name: str, level: int, how: int, version: int = 2, **more: Any
) -> Any:
    one = {"feature": name, "max_version_level": level, "upgrade_type": how}
    asked = {"timeout_ms": 1000, "feature_updates": [one], "validate_only": False, **more}
    return await broker.ask("UpdateFeatures", version, **asked)


async def received(broker: MemoryBroker) -> tuple[dict[str, int], int]:
    """Levels of features as clients learn them, and their epoch."""
    software = {"client_software_name": "tester", "client_software_version": "1"}
    answer = await broker.ask("ApiVersions", 4, **software)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    return levels, answer.finalized_features_epoch


@pytest.mark.parametrize("version", [1, 2])
@scenario()
async def test_down_and_up(broker: MemoryBroker, version: int) -> None:
    for level, how in ((1, SAFE), (0, UNSAFE), (1, UPGRADE), (2, UPGRADE)):
        _, before = await received(broker)
        answer = await update(broker, TRANSACTION, level, how, version)
        assert (answer.error_code, answer.error_message) == (Code.NONE, None)
        results = [(one.feature, one.error_code, one.error_message) for one in answer.results]
        assert results == ([(TRANSACTION, 0, "NONE")] if version == 1 else [])
        levels, epoch = await received(broker)
        assert levels == {**HIGHEST, TRANSACTION: level} if level else TRANSACTION not in levels
        assert epoch > before, "by which a client knows that this answer is newer"
        assert broker.parts.settings.kavka_transaction_version == level


@scenario()
async def test_what_is_set_outlives_the_broker(broker: MemoryBroker) -> None:
    await update(broker, TRANSACTION, 1, SAFE)
    await update(broker, GROUP, 0, SAFE)
    expected = {"metadata.version": 30, TRANSACTION: 1}
    _, epoch = await received(broker)
    for end in (broker.restart, broker.kill, broker.crash):
        await end()
        levels, after = await received(broker)
        assert levels == expected
        assert after > epoch
        epoch = after
    await update(broker, GROUP, 1, UPGRADE)
    await broker.restart()
    assert (await received(broker))[0] == {**HIGHEST, TRANSACTION: 1}


@scenario()
async def test_only_validated(broker: MemoryBroker) -> None:
    before = await received(broker)
    answer = await update(broker, TRANSACTION, 1, SAFE, validate_only=True)
    assert answer.error_code == Code.NONE
    assert await received(broker) == before
    answer = await update(broker, TRANSACTION, 3, UPGRADE, validate_only=True)
    assert answer.error_code == Code.INVALID_UPDATE_VERSION


@scenario()
async def test_a_level_that_it_has_changes_nothing(broker: MemoryBroker) -> None:
    before = await received(broker)
    assert (await update(broker, TRANSACTION, 2, UPGRADE)).error_code == Code.NONE
    assert await received(broker) == before


@pytest.mark.parametrize("version", [0, 1, 2])
@scenario()
async def test_refused(broker: MemoryBroker, version: int) -> None:
    answer = await update(broker, "no.such", 1, UPGRADE, version)
    assert answer.error_code == Code.INVALID_UPDATE_VERSION
    assert answer.error_message.startswith("The update failed for all features since the following")
    assert list(answer.results) == []


@pytest.mark.parametrize("version", [0, 1, 2])
@scenario()
async def test_not_allowed(broker: MemoryBroker, version: int) -> None:
    broker.parts.authorizer = Denied(Operation.ALTER)
    answer = await update(broker, TRANSACTION, 1, SAFE, version)
    assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    assert (await received(broker))[0] == HIGHEST


@scenario()
async def test_only_the_controller_updates(broker: MemoryBroker) -> None:
    broker.parts.controller.close()
    answer = await update(broker, TRANSACTION, 1, SAFE)
    assert answer.error_code == Code.NOT_CONTROLLER


@scenario()
async def test_without_the_consumer_protocol(broker: MemoryBroker) -> None:
    member = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000}

    async def joined() -> int:
        asked = {**member, "subscribed_topic_names": ["t"], "topic_partitions": []}
        code: int = (await broker.ask("ConsumerGroupHeartbeat", 1, **asked)).error_code
        return code

    async def described() -> int:
        answer = await broker.ask("ConsumerGroupDescribe", 1, group_ids=["g"])
        code: int = answer.groups[0].error_code
        return code

    await broker.create("t")
    await broker.ask("FindCoordinator", 3, key="g", key_type=0)
    assert await joined() == await described() == Code.NONE
    await update(broker, GROUP, 0, SAFE)
    assert await joined() == await described() == Code.UNSUPPORTED_VERSION
    await update(broker, GROUP, 1, UPGRADE)
    assert await joined() == await described() == Code.NONE


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
    assert "no effect: kavka.transaction.version" in caplog.text


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

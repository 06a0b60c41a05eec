"""Configs are written with their notification, and done when that is processed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from kavka.server.cluster import config_writer as writing
from kavka.server.cluster.config_writer import ConfigWriter
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.coordination.broker_registration import prepare_tree
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import SessionExpired
from support.asynchronous import ran_by
from support.embedded_coordination import new_fs, open_on
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

TOPIC = (paths.TOPIC_CONFIGS, "t")
BROKERS = (paths.BROKER_CONFIGS, paths.DEFAULT_ENTITY)


class Writing:
    """A writer on a tree with a topic `t`."""

    def __init__(self, session: EmbeddedCoordination, tasks: VirtualTasks) -> None:
        self.session = session
        self.configs = EntityConfigs(session, tasks=tasks)
        self.writer = ConfigWriter(session, self.configs, tasks)

    async def change(
        self, entity: tuple[str, str], validate_only: bool = False, **updates: str
    ) -> None:
        """Add to the configs of an entity."""
        await self.writer.change(
            entity, lambda current: {**current, **updates}, validate_only=validate_only
        )

    async def stored(self, entity: tuple[str, str]) -> dict[str, str]:
        return paths.decode_config((await self.session.get(paths.config(*entity))).data)

    async def notes(self) -> list[str]:
        return await self.session.children(paths.CONFIG_CHANGES)


def run(body: Callable[[Writing], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        session = await open_on(new_fs(), clock=clock)
        await prepare_tree(session)
        await session.create(paths.topic("t"), b"{}")
        found = Writing(session, VirtualTasks(clock))
        await found.configs.load()
        await body(found)

    asyncio.run(main())


with_writing = ran_by(run)


@with_writing
async def test_a_change_is_over_when_it_is_known_here(on: Writing, /) -> None:
    notified: list[tuple[str, str]] = []
    on.configs.on_change(lambda kind, name: notified.append((kind, name)))
    await on.change(TOPIC, a="1")
    assert notified == [TOPIC]
    assert on.configs.get("t") == await on.stored(TOPIC) == {"a": "1"}
    await on.change(TOPIC, b="2")
    assert on.configs.get("t") == await on.stored(TOPIC) == {"a": "1", "b": "2"}
    await on.change(BROKERS, c="3")
    assert on.configs.broker_defaults() == await on.stored(BROKERS) == {"c": "3"}
    assert len(await on.notes()) == 3


@with_writing
async def test_nothing_is_written_for_nothing(on: Writing, /) -> None:
    await on.change(TOPIC)
    await on.change(TOPIC, validate_only=True, a="1")
    assert await on.session.exists(paths.config(*TOPIC)) is None
    await on.change(TOPIC, a="1")
    await on.change(TOPIC, a="1")
    assert len(await on.notes()) == 1


@with_writing
async def test_a_refusal_leaves_what_was(on: Writing, /) -> None:
    await on.change(TOPIC, a="1")

    def refuse(current: Mapping[str, str]) -> Mapping[str, str]:
        assert current == {"a": "1"}
        raise ApiError(ErrorCode.INVALID_CONFIG)

    with pytest.raises(ApiError):
        await on.writer.change(TOPIC, refuse, validate_only=False)
    assert await on.stored(TOPIC) == {"a": "1"}
    await on.change(TOPIC, a="2")  # and others go on
    assert await on.stored(TOPIC) == {"a": "2"}


@with_writing
async def test_a_topic_that_has_gone_gets_none(on: Writing, /) -> None:
    with pytest.raises(ApiError) as caught:
        await on.change((paths.TOPIC_CONFIGS, "gone"), a="1")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await on.session.exists(paths.config(paths.TOPIC_CONFIGS, "gone")) is None
    assert await on.notes() == []


@with_writing
async def test_changes_at_the_same_time_are_made_in_order(on: Writing, /) -> None:
    names = [str(number) for number in range(30)]
    await asyncio.gather(*(on.change(TOPIC, False, a=name, **{name: ""}) for name in names))
    assert await on.stored(TOPIC) == {"a": "29", **dict.fromkeys(names, "")}


@with_writing
async def test_a_cancelled_one_does_not_block_the_next(on: Writing, /) -> None:
    first = asyncio.ensure_future(on.change(TOPIC, a="1"))
    second = asyncio.ensure_future(on.change(TOPIC, b="2"))
    third = asyncio.ensure_future(on.change(TOPIC, c="3"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, third)
    assert await on.stored(TOPIC) == {"a": "1", "c": "3"}
    await on.change(TOPIC, d="4")
    assert await on.stored(TOPIC) == {"a": "1", "c": "3", "d": "4"}


def test_another_broker_s_change_is_not_lost() -> None:
    async def body(on: Writing) -> None:
        tries = 0

        def decide(current: Mapping[str, str]) -> Mapping[str, str]:
            nonlocal tries
            tries += 1
            if tries <= 2:  # the other one is quicker: the node is made, then changed
                data = paths.encode_config({"other": str(tries)})
                path = paths.config(*TOPIC)
                asyncio.ensure_future(
                    on.session.create(path, data) if tries == 1 else on.session.set(path, data)
                )
            return {**current, "own": "1"}

        await on.writer.change(TOPIC, decide, validate_only=False)
        await run_until_idle()
        assert await on.stored(TOPIC) == {"other": "2", "own": "1"}
        assert tries == 3

    run(body)


@with_writing
async def test_an_endless_race_fails(on: Writing, /) -> None:
    assert writing.ATTEMPTS_MAX < 100
    await on.change(TOPIC, a="0")

    def decide(current: Mapping[str, str]) -> Mapping[str, str]:
        asyncio.ensure_future(
            on.session.set(paths.config(*TOPIC), paths.encode_config({"a": "other"}))
        )
        return {"a": "own"}

    with pytest.raises(ApiError) as caught:
        await on.writer.change(TOPIC, decide, validate_only=False)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


@with_writing
async def test_the_end_of_the_session_is_reported(on: Writing, /) -> None:
    pending = asyncio.ensure_future(on.change(TOPIC, a="1"))
    await asyncio.sleep(0)
    await on.session.close()
    with pytest.raises(SessionExpired):
        await pending


@pytest.mark.parametrize("kind", [paths.GROUP_CONFIGS, paths.SUBSCRIPTION_CONFIGS])
@with_writing
async def test_the_node_of_a_group_or_subscription_goes_with_its_last_config(
    on: Writing, /, kind: str
) -> None:
    """Otherwise names that are used once stay in the tree forever."""
    entity = (kind, "once")
    notified: list[tuple[str, str]] = []
    on.configs.on_change(lambda kind, name: notified.append((kind, name)))
    for number in range(2):
        await on.change(entity, a=str(number))
        assert await on.stored(entity) == {"a": str(number)}
        await on.writer.change(entity, lambda current: {}, validate_only=False)
        assert await on.session.children(f"/config/{kind}") == []
        assert notified == [entity] * 2 * (number + 1)
        assert not on.configs.group("once") and not on.configs.subscription("once")


@with_writing
async def test_the_node_of_a_topic_stays_without_configs(on: Writing, /) -> None:
    """As with Apache Kafka and ZooKeeper."""
    await on.change(TOPIC, a="1")
    await on.writer.change(TOPIC, lambda current: {}, validate_only=False)
    assert await on.stored(TOPIC) == {}

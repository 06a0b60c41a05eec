"""Settings in the tree: all at the start, each change by its note."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kavka.server.cluster import entity_configs
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.coordination.broker_registration import prepare_tree
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.zktree import paths
from kavka.zktree.api import Overloaded, SessionExpired
from support.asynchronous import Test, ran_by
from support.embedded_coordination import new_fs, open_on
from support.virtual import VirtualClock, VirtualTasks, run_until_idle


def run(body: Test) -> None:
    async def main() -> None:
        clock = VirtualClock()
        session = await open_on(new_fs(), clock=clock)
        await prepare_tree(session)
        tasks = VirtualTasks(clock)
        await body(session, EntityConfigs(session, tasks=tasks), clock, tasks)

    asyncio.run(main())


with_configs = ran_by(run)


async def change(session: EmbeddedCoordination, kind: str, entity: str, **settings: str) -> None:
    """Set an entity's settings and leave a note, as Apache Kafka's tools do."""
    await put(session, kind, entity, **settings)
    await note(session, paths.encode_config_change(kind, entity))


async def put(session: EmbeddedCoordination, kind: str, entity: str, **settings: str) -> None:
    path, data = paths.config(kind, entity), paths.encode_config(settings)
    if await session.exists(path) is None:
        await session.create(path, data)
    else:
        await session.set(path, data)


async def note(session: EmbeddedCoordination, data: bytes) -> None:
    await session.create(paths.CONFIG_CHANGE_PREFIX, data, sequential=True)
    await run_until_idle()


@with_configs
async def test_everything_is_read_at_the_start(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await put(session, "topics", "t", retention="1")
    await put(session, "topics", "plain")
    await put(session, "brokers", "1", threads="2")
    await put(session, "brokers", paths.DEFAULT_ENTITY, threads="3")
    await configs.load()
    assert configs.get("t") == {"retention": "1"}
    assert configs.get("plain") == configs.get("unknown") == {}
    assert configs.broker(1) == {"threads": "2"}
    assert configs.broker(2) == {}
    assert configs.broker_defaults() == {"threads": "3"}


@with_configs
async def test_many_are_read_in_parts(
    session: EmbeddedCoordination, configs: EntityConfigs, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_configs, "READS_MAX", 3)
    for number in range(10):
        await put(session, "topics", f"t{number}", number=str(number))
    await configs.load()
    assert [configs.get(f"t{n}")["number"] for n in range(10)] == [str(n) for n in range(10)]


@with_configs
async def test_changes_are_followed(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await put(session, "topics", "t", retention="1")
    await change(session, "topics", "old")
    await configs.load()
    seen: list[tuple[str, str, dict[str, str]]] = []
    configs.on_change(lambda kind, name: seen.append((kind, name, dict(configs.get(name)))))
    await change(session, "topics", "t", retention="2")
    assert configs.get("t") == {"retention": "2"}
    await change(session, "brokers", "1", threads="9")
    assert configs.broker(1) == {"threads": "9"}
    await note(session, b'{"version":1,"entity_type":"topics","entity_name":"t"}')
    await change(session, "users", "somebody", quota="1")
    assert seen == [
        ("topics", "t", {"retention": "2"}),
        ("brokers", "1", {}),
        ("topics", "t", {"retention": "2"}),
    ]


@with_configs
async def test_changes_that_come_together_are_all_followed(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await configs.load()
    for number in range(5):
        data = paths.encode_config({"n": str(number)})
        session.create(f"/config/topics/t{number}", data)
        change_note = paths.encode_config_change("topics", f"t{number}")
        session.create(paths.CONFIG_CHANGE_PREFIX, change_note, sequential=True)
    await run_until_idle(100)
    assert [configs.get(f"t{number}") for number in range(5)] == [
        {"n": str(number)} for number in range(5)
    ]


@with_configs
async def test_settings_that_are_removed_are_gone(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await put(session, "topics", "t", retention="1")
    await configs.load()
    await session.delete("/config/topics/t")
    await note(session, paths.encode_config_change("topics", "t"))
    assert configs.get("t") == {}


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b'{"version":3}', b'{"version":2,"entity_path":"topics"}', b"{}"]
)
@with_configs
async def test_a_note_that_cannot_be_read_stops_nothing(
    session: EmbeddedCoordination,
    configs: EntityConfigs,
    /,
    data: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    await configs.load()
    await note(session, data)
    await change(session, "topics", "t", retention="2")
    assert configs.get("t") == {"retention": "2"}
    assert len(caplog.records) == 1


@with_configs
async def test_settings_that_cannot_be_read_leave_what_was(
    session: EmbeddedCoordination, configs: EntityConfigs, /, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    await put(session, "topics", "t", retention="1")
    await session.create("/config/topics/broken", b"nonsense")
    await configs.load()
    assert configs.get("broken") == {}
    await session.set("/config/topics/t", b"nonsense")
    await note(session, paths.encode_config_change("topics", "t"))
    assert configs.get("t") == {"retention": "1"}
    assert len(caplog.records) == 2


@with_configs
async def test_a_topic_that_comes_later(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await configs.load()
    await put(session, "topics", "t", retention="1")
    await configs.refresh(["t", "missing"])
    assert configs.get("t") == {"retention": "1"}
    configs.forget("t")
    configs.forget("t")
    assert configs.get("t") == {}
    await put(session, "topics", "t", retention="2")
    await configs.refresh(["t"])
    assert configs.get("t") == {"retention": "2"}


@with_configs
async def test_old_notes_are_removed_oldest_first(
    session: EmbeddedCoordination, configs: EntityConfigs, clock: VirtualClock, /
) -> None:
    await change(session, "topics", "t", n="0")
    await configs.load()
    clock.elapsed_ms += 60_000
    await change(session, "topics", "t", n="1")
    assert len(await session.children(paths.CONFIG_CHANGES)) == 2
    clock.elapsed_ms += entity_configs.NOTIFICATION_EXPIRY_MS
    await change(session, "topics", "t", n="2")
    assert await session.children(paths.CONFIG_CHANGES) == [
        "config_change_0000000001",
        "config_change_0000000002",
    ]
    assert configs.get("t") == {"n": "2"}


@with_configs
async def test_the_end_of_the_session_is_quiet(
    session: EmbeddedCoordination, configs: EntityConfigs, /, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await configs.load()
    session.create(paths.CONFIG_CHANGE_PREFIX, b"{}", sequential=True)
    await session.close()
    await run_until_idle()
    assert caplog.records == []


@with_configs
async def test_waiting_for_a_note(session: EmbeddedCoordination, configs: EntityConfigs, /) -> None:
    await configs.load()
    notified: list[str] = []
    configs.on_change(lambda kind, name: notified.append(name))
    await put(session, "topics", "t", n="1")
    data = paths.encode_config_change("topics", "t")
    created = await session.create(paths.CONFIG_CHANGE_PREFIX, data, sequential=True)
    note = created.path.rpartition("/")[2]
    await configs.processed(note)
    assert notified == ["t"]
    assert configs.get("t") == {"n": "1"}
    await configs.processed(note)  # it has been already


@with_configs
async def test_waiting_ends_with_the_session(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await configs.load()
    waiting = configs.processed("config_change_0000000099")
    await run_until_idle()
    await session.close()
    for late in (waiting, configs.processed("config_change_0000000099")):
        with pytest.raises(SessionExpired):
            await late


@with_configs
async def test_notes_are_few_however_young(
    session: EmbeddedCoordination, configs: EntityConfigs, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_configs, "NOTIFICATIONS_MAX", 10)
    await configs.load()
    for number in range(25):
        await change(session, "topics", "t", n=str(number))
    notes = await session.children(paths.CONFIG_CHANGES)
    assert notes == [f"config_change_{number:010d}" for number in range(15, 25)]
    assert configs.get("t") == {"n": "24"}


@with_configs
async def test_many_old_notes_are_removed_with_few_writes(
    session: EmbeddedCoordination,
    configs: EntityConfigs,
    clock: VirtualClock,
    /,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No change waits for a sync of the disk for every note."""
    monkeypatch.setattr(entity_configs, "PURGED_AT_ONCE", 10)
    for _ in range(25):
        await change(session, "topics", "t")
    await configs.load()
    clock.elapsed_ms += entity_configs.NOTIFICATION_EXPIRY_MS + 1
    before = session._tree.zxid
    await change(session, "topics", "t")
    await run_until_idle()
    assert len(await session.children(paths.CONFIG_CHANGES)) == 1
    assert session._tree.zxid - before == 5, "the configs, the note, and three removals"


@with_configs
async def test_what_is_gone_takes_no_room(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await configs.load()
    for number in range(5):
        await note(session, paths.encode_config_change("topics", f"gone{number}"))
    await configs.refresh(["missing"])
    assert not any(configs._settings.values())


@with_configs
async def test_groups_of_any_name_have_settings(
    session: EmbeddedCoordination, configs: EntityConfigs, clock: VirtualClock, /
) -> None:
    await configs.load()
    assert configs.groups() == []
    await session.create("/config/groups")
    await change(session, paths.GROUP_CONFIGS, "../a/b", timeout="1")
    assert configs.group("../a/b") == {"timeout": "1"}
    again = EntityConfigs(session, tasks=VirtualTasks(clock))
    await again.load()
    assert again.groups() == ["../a/b"]
    await change(session, paths.GROUP_CONFIGS, "../a/b")
    assert configs.groups() == []
    assert configs.group("other") == {}


@with_configs
async def test_a_listener_that_fails_keeps_no_other_and_no_later_change(
    session: EmbeddedCoordination, configs: EntityConfigs, /, caplog: pytest.LogCaptureFixture
) -> None:
    await configs.load()
    notified: list[str] = []

    def broken(kind: str, name: str) -> None:
        raise ValueError("broken")

    configs.on_change(broken)
    configs.on_change(lambda kind, name: notified.append(name))
    for name in ("t", "u", "t"):
        await change(session, "topics", name, n="1")
    assert notified == ["t", "u", "t"]
    assert caplog.text.count("ValueError: broken") == 3


@pytest.mark.parametrize("fails", ["children", "get"])
@with_configs
async def test_where_the_tree_can_not_be_asked_it_is_asked_again(
    session: EmbeddedCoordination,
    configs: EntityConfigs,
    clock: VirtualClock,
    tasks: VirtualTasks,
    /,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
) -> None:
    await configs.load()
    notified: list[str] = []
    configs.on_change(lambda kind, name: notified.append(name))
    ask = getattr(session, fails)

    def overloaded(path: str, watch: object = None) -> Any:
        if path.startswith("/config/topics/u") or fails == "children":
            raise Overloaded(path)
        return ask(path, watch)

    for name in ("t", "u"):
        await put(session, "topics", name, n="1")
    monkeypatch.setattr(session, fails, overloaded)
    for name in ("t", "u", "t"):
        data = paths.encode_config_change("topics", name)
        await session.create(paths.CONFIG_CHANGE_PREFIX, data, sequential=True)
    await run_until_idle()
    assert notified == (["t"] if fails == "get" else [])
    monkeypatch.undo()
    await tasks.advance(entity_configs.RETRY_S * 1000)
    assert notified == ["t", "u", "t"], "each once"


@with_configs
async def test_after_a_time_without_a_session_all_that_differs_is_reported(
    session: EmbeddedCoordination, configs: EntityConfigs, /
) -> None:
    await put(session, "topics", "same", retention="1")
    await put(session, "topics", "changed", retention="1")
    await put(session, "topics", "gone", retention="1")
    await configs.load()
    heard: list[tuple[str, str]] = []
    configs.on_change(lambda kind, name: heard.append((kind, name)))
    await put(session, "topics", "changed", retention="2")
    await session.delete(paths.config("topics", "gone"))
    await put(session, "brokers", "1", threads="2")
    assert configs.get("changed") == configs.get("gone") == {"retention": "1"}, "without a note"
    await configs.reload()
    assert configs.get("changed") == {"retention": "2"}
    assert configs.get("gone") == {}
    assert heard == [("topics", "changed"), ("topics", "gone"), ("brokers", "1")]
    await change(session, "topics", "same", retention="3")
    assert heard[3:] == [("topics", "same")], "changes are watched again"

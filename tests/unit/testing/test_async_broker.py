"""A broker on the caller's own loop, asyncio's and uvloop's."""

from __future__ import annotations

import asyncio
import errno
import logging
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.log.fs import OsFile
from kavka.server.host import new_event_loop
from kavka.testing import ApiError, AsyncBroker, BrokerFailed, ConfigError, ErrorCode, StartError
from support.loop_context import collect_lost_failures

CLEAN = ".kafka_cleanshutdown"

LOOPS = pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "best"]
)


def run(
    story: Callable[[], Awaitable[None]],
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    async def main() -> list[Any]:
        lost = collect_lost_failures()
        await story()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return lost

    with asyncio.Runner(loop_factory=make_loop) as runner:
        lost = runner.run(main())
    assert not lost, lost
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kavka")]


async def can_connect(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except ConnectionError:
        return False
    writer.close()
    return True


@LOOPS
def test_a_whole_life(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def story() -> None:
        async with AsyncBroker(num_partitions=2) as broker:
            assert broker.is_running and not broker.has_failed
            address, cluster, directory = (
                broker.bootstrap_servers,
                broker.cluster_id,
                broker.data_dir,
            )
            assert await can_connect(address)
            await broker.create_topic("t", 2, configs={"max.message.bytes": 100_000})
            assert await broker.produce("t", b"1", partition=1) == 0
            await broker.restart()
            assert await broker.produce("t", b"2", partition=1) == 1
            await broker.kill()
            assert not broker.is_running
            assert not await can_connect(address)
            assert broker.bootstrap_servers == address, "for clients that wait for it"
            assert not (directory / CLEAN).exists()
            await broker.start()
            assert [record.value for record in await broker.read("t")] == [b"1", b"2"]
            assert await broker.end_offsets("t") == {0: 0, 1: 2}
            assert (broker.bootstrap_servers, broker.cluster_id) == (address, cluster)
            assert await broker.topics() == ["t"]
            await broker.delete_topic("t")
            assert await broker.topics() == []
        assert not directory.exists()
        assert not await can_connect(address)

    run(story, make_loop)


def test_stopped_it_keeps_its_data_until_it_is_closed() -> None:
    async def story() -> None:
        broker = AsyncBroker()
        await broker.start()
        await broker.create_topic("t")
        directory = broker.data_dir
        await broker.stop()
        assert (directory / CLEAN).exists()
        await broker.start()
        assert await broker.topics() == ["t"]
        await broker.close()
        assert not directory.exists()
        await broker.close()

    run(story)


def test_a_given_directory_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        for offset in range(2):
            async with AsyncBroker(data_dir=tmp_path / "data", broker_id=7) as broker:
                assert broker.data_dir == tmp_path / "data"
                if offset == 0:
                    await broker.create_topic("t")
                assert await broker.produce("t", b"x") == offset
        assert (tmp_path / "data" / "t-0").is_dir()
        both = [tmp_path / "a", tmp_path / "b"]
        async with AsyncBroker(log_dirs=both) as broker:
            await broker.create_topic("t", 2)
            assert all((path / "meta.properties").exists() for path in both)
            assert broker.data_dir == tmp_path / "a"

    run(story)


def test_several_listeners() -> None:
    async def story() -> None:
        async with AsyncBroker(
            listeners="IN://127.0.0.1:0,OUT://127.0.0.1:0",
            listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
            inter_broker_listener_name="IN",
        ) as broker:
            assert list(broker.addresses) == ["IN", "OUT"]
            assert broker.bootstrap_servers == broker.addresses["IN"]
            before = dict(broker.addresses)
            await broker.restart()
            assert broker.addresses == before
            assert [await can_connect(address) for address in before.values()] == [True, True]

    run(story)


def test_bad_settings_are_refused_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean num_partitions"):
        AsyncBroker(num_partition=1)
    with pytest.raises(ConfigError, match=r"num\.partitions=none"):
        AsyncBroker(settings={"num.partitions": "none"})
    with pytest.raises(ConfigError, match=r"data_dir and log\.dirs are both given"):
        AsyncBroker(data_dir=tmp_path, log_dirs=tmp_path)


def test_settings_without_effect_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with AsyncBroker(num_io_threads=3):
            pass

    run(story)
    assert "num.io.threads" in caplog.text


def test_the_environments_settings_are_not_this_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAVKA_NUM_PARTITIONS", "nonsense")

    async def story() -> None:
        async with AsyncBroker():
            pass

    run(story)


def test_a_start_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def story() -> None:
        async with AsyncBroker() as first:
            taken = AsyncBroker(listeners=f"PLAINTEXT://{first.bootstrap_servers}")
            with pytest.raises(StartError, match="can't listen on 127.0.0.1"):
                async with taken:
                    raise AssertionError("it can't be")
            same = AsyncBroker(data_dir=first.data_dir)
            with pytest.raises(StartError, match="is in use by another broker"):
                await same.start()
            assert not same.is_running
            await first.stop()
            await same.start()  # it can be tried again
            await same.close()
            await first.start()
        with pytest.raises(StartError, match="no port can be had"):
            await AsyncBroker(listeners="PLAINTEXT://192.0.2.1:0").start()

    run(story)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))

    async def nowhere() -> None:
        with pytest.raises(StartError, match="no temporary directory can be had"):
            await AsyncBroker().start()

    run(nowhere)


def test_calls_that_need_a_running_broker_are_refused() -> None:
    async def story() -> None:
        broker = AsyncBroker()
        with pytest.raises(RuntimeError, match="has not been started"):
            broker.bootstrap_servers  # noqa: B018 - asking is what fails
        with pytest.raises(RuntimeError, match=r"does not run: start\(\) it first"):
            await broker.topics()
        async with broker:
            with pytest.raises(RuntimeError, match="runs already"):
                await broker.start()

    run(story)


def test_stopping_a_broker_that_does_not_run() -> None:
    async def story() -> None:
        broker = AsyncBroker()
        await broker.stop()
        await broker.restart()
        await broker.create_topic("t")
        assert await broker.produce("t", b"kept") == 0
        for end in (broker.kill, broker.kill, broker.stop, broker.stop):
            await end()
            assert not broker.is_running
        await broker.restart()
        assert await broker.end_offsets("t") == {0: 1}
        await broker.close()
        await broker.close()

    run(story)


def test_a_topic_has_as_many_partitions_as_the_settings_say() -> None:
    async def story() -> None:
        async with AsyncBroker(num_partitions=3) as broker:
            await broker.create_topic("default")
            await broker.create_topic("one", 1)
            assert len(await broker.end_offsets("default")) == 3
            assert len(await broker.end_offsets("one")) == 1

    run(story)


def test_refusals_are_api_errors() -> None:
    async def story() -> None:
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            with pytest.raises(ApiError) as caught:
                await broker.create_topic("t")
            assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
            with pytest.raises(ConfigError, match="topic u"):
                await broker.create_topic("u", configs={"retention.ms": None})

    run(story)


async def fail(broker: AsyncBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk fail under the metadata, which no broker can do without."""

    def refuse(self: OsFile, data: object, offset: int) -> None:
        raise OSError(errno.EIO, "planted")

    with monkeypatch.context() as patched:
        patched.setattr(OsFile, "pwrite", refuse)
        with pytest.raises((ApiError, RuntimeError, BrokerFailed)):
            await broker.create_topic("never")
        while not broker.has_failed:
            await asyncio.sleep(0)
        while await can_connect(broker.bootstrap_servers):
            await asyncio.sleep(0)


def test_a_broker_that_fails_later_is_reported_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    async def story() -> None:
        with pytest.raises(BrokerFailed):
            async with AsyncBroker() as broker:
                directory = broker.data_dir
                await fail(broker, monkeypatch)
                assert not broker.is_running
                with pytest.raises(BrokerFailed):
                    await broker.topics()
        assert not directory.exists()

    run(story)


def test_a_failed_broker_is_noted_where_the_test_failed_because_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        with pytest.raises(ValueError, match="of the test") as caught:
            async with AsyncBroker() as broker:
                await fail(broker, monkeypatch)
                raise ValueError("of the test")
        assert any("after a fatal error" in note for note in caught.value.__notes__)

    run(story)


def test_a_failed_broker_can_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await fail(broker, monkeypatch)
            with pytest.raises(BrokerFailed):
                await broker.stop()
            await broker.start()
            assert "t" in await broker.topics()

    run(story)


def test_several_at_once_and_a_clash_of_nothing() -> None:
    async def story() -> None:
        async with AsyncBroker() as first, AsyncBroker() as second:
            assert first.bootstrap_servers != second.bootstrap_servers
            assert first.cluster_id != second.cluster_id
            await asyncio.gather(first.create_topic("a"), second.create_topic("b"))
            assert (await first.topics(), await second.topics()) == (["a"], ["b"])

    run(story)

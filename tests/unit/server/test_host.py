"""An instance on the real machine, on the caller's loop: it starts, ends in both ways, and leaves
the loop as it was."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.host import Host, new_event_loop, socket_network
from kavka.server.runtime.sockets import SYSTEM_SIZED
from kavka.server.start_checks import StartError
from kavka.zktree.storage import Storage

CLEAN = ".kafka_cleanshutdown"


def settings(directory: Path, *more: str) -> BrokerSettings:
    overrides = [f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0", *more]
    return BrokerSettings.load(environ={}, overrides=overrides)


def never() -> None:
    raise AssertionError("it does not fail")


async def connect(machine: Host) -> asyncio.StreamReader:
    ((host, port),) = machine.instance.addresses.values()
    reader, _ = await asyncio.open_connection(host, port)
    return reader


def open_files(directory: Path) -> list[str]:
    """The files of a directory that this process has open."""
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    found = [os.readlink(link) for link in links if link.is_symlink()]
    return [path for path in found if path.startswith(str(directory))]


LOOPS = pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "best"]
)


@LOOPS
@pytest.mark.parametrize("way", ["stop", "kill"])
def test_it_ends_in_either_way_and_leaves_nothing(
    tmp_path: Path, make_loop: Callable[[], asyncio.AbstractEventLoop], way: str
) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        machine = Host(settings(tmp_path), never)
        await machine.start()
        reader = await connect(machine)
        assert open_files(tmp_path)
        await getattr(machine, way)()
        assert await reader.read() == b"", "who was connected is hung up on"
        assert asyncio.all_tasks() == before
        assert not open_files(tmp_path)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("kavka")]

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())
    assert (tmp_path / CLEAN).exists() == (way == "stop")


async def test_why_the_metadata_can_t_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Storage, "append", fail)
    machine = Host(settings(tmp_path), lambda: None)
    with pytest.raises(StartError, match=f"written: {tmp_path}: .*No space left on device"):
        await machine.start()
    await machine.stop()
    assert "Traceback" not in caplog.text


async def test_after_a_kill_another_can_start_at_once_on_the_same_port(tmp_path: Path) -> None:
    machine = Host(settings(tmp_path), never)
    await machine.start()
    await connect(machine)
    ((_, port),) = machine.instance.addresses.values()
    for _ in range(3):
        await machine.kill()
        same = settings(tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port}")
        machine = Host(same, never)
        await machine.start()
        await connect(machine)
    await machine.stop()


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda path: (path / "a-0").write_bytes(b""), None),
        (lambda path: (path / "meta.properties").write_bytes(b"version=0\n"), "is corrupt"),
        (lambda path: (path / "coordination.log").write_bytes(b"nonsense"), "is damaged"),
        (lambda path: (path / ".lock").mkdir(), "Is a directory"),
    ],
)
async def test_any_obstacle_is_a_start_error(
    tmp_path: Path, prepare: Callable[[Path], object], said: str | None
) -> None:
    prepare(tmp_path)
    machine = Host(settings(tmp_path), never)
    try:
        if said is None:  # a file that is no partition is nothing to it
            await machine.start()
        else:
            with pytest.raises(StartError, match=said):
                await machine.start()
    finally:
        await machine.stop()
    assert not open_files(tmp_path)


def test_socket_buffers_are_the_systems_unless_they_are_given(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    network = socket_network(settings(tmp_path), loop)
    assert (network._receive_bytes, network._send_bytes) == (SYSTEM_SIZED, SYSTEM_SIZED)
    given = settings(tmp_path, "socket.receive.buffer.bytes=4096")
    assert socket_network(given, loop)._receive_bytes == 4096
    loop.close()


def test_files_for_tls_with_zookeeper_must_be_there(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    given = (
        "zookeeper.connect=localhost:1",
        "zookeeper.ssl.client.enable=true",
        f"zookeeper.ssl.truststore.location={missing}",
    )

    async def make() -> None:
        Host(settings(tmp_path, *given), never)

    reason = f"zookeeper.ssl.truststore.location={missing}: No such file"
    with pytest.raises(StartError, match=reason):
        asyncio.run(make())

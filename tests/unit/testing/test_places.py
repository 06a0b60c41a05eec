"""A broker's directory and ports between its lives."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from kavka.server.runtime.sockets import SYSTEM_SIZED, SocketNetwork
from kavka.testing.places import Directory, Ports
from kavka.testing.settings import broker_settings, given_settings

HOST = "127.0.0.1"


def test_a_temporary_directory_is_made_when_asked_for_and_removed() -> None:
    directory = Directory(None)
    directory.remove()  # nothing to do
    path = directory.path
    assert path.is_dir() and path == directory.path
    (path / "t-0").mkdir()
    (path / "t-0" / "00000000000000000000.log").write_bytes(b"x")
    directory.remove()
    assert not path.exists()
    directory.remove()


def test_a_given_directory_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    directory = Directory("data")
    assert directory.path == tmp_path / "data"
    (tmp_path / "data").mkdir()
    monkeypatch.chdir("/")
    assert directory.path == tmp_path / "data", "wherever the program goes"
    directory.remove()
    assert (tmp_path / "data").is_dir()


def test_a_forked_child_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Directory(None)
    path = directory.path
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    directory.remove()
    assert path.is_dir()
    monkeypatch.undo()
    directory.remove()
    assert not path.exists()


def test_ports_are_the_same_and_reserved_until_released() -> None:
    given = given_settings({"listeners": ["A://127.0.0.1:0", "B://127.0.0.1:0"]}, {})
    given |= given_settings(
        {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
        {"inter_broker_listener_name": "A"},
    )

    async def story() -> None:
        ports = Ports()
        settings = broker_settings(given)
        first = [listener.port for listener in (await ports.of(settings)).listeners]
        assert all(first) and len(set(first)) == 2
        assert [listener.port for listener in (await ports.of(settings)).listeners] == first
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((HOST, first[0]))
        network = SocketNetwork(
            asyncio.get_running_loop(),
            backlog=5,
            receive_bytes=SYSTEM_SIZED,
            send_bytes=SYSTEM_SIZED,
        )
        for _ in range(2):  # the broker itself can have it, again and again
            listening = await network.bind(HOST, first[0])
            listening.close()
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect((HOST, first[0]))
        ports.release()
        with socket.socket() as other:
            other.bind((HOST, first[0]))

    asyncio.run(story())


def test_a_port_of_the_settings_is_left_as_it_is() -> None:
    async def story() -> None:
        ports = Ports()
        settings = broker_settings(given_settings({}, {"listeners": "PLAINTEXT://127.0.0.1:9"}))
        assert await ports.of(settings) == settings
        ports.release()

    asyncio.run(story())

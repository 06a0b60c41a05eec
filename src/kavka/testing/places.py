"""What a test's broker keeps between stop and start: its data directory and its ports."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from kavka.server.config import BrokerSettings, Listener
from kavka.server.host import socket_network
from kavka.server.runtime.sockets import ReservedPort

DataPath: TypeAlias = Path


class Directory:
    """The data directory: `given`, or a temporary one of the process that created it."""

    def __init__(self, given: str | os.PathLike[str] | None) -> None:
        self._is_temporary = given is None
        self._path = None if given is None else Path(os.fsdecode(given)).absolute()
        self._made_by = 0

    @property
    def path(self) -> Path:
        """The directory; a temporary one is created on first use."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="kavka-"))
            self._made_by = os.getpid()
        return self._path

    def remove(self) -> None:
        """Remove a temporary directory and its contents; not in a forked child, which runs the same
        exit handlers as its parent."""
        if self._is_temporary and self._path is not None and self._made_by == os.getpid():
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


class Ports:
    """Ports that were free at the first start and belong to the broker until it is closed.

    They are held by sockets that are bound and never listen. So no other program gets the port
    while the broker is down, and no reconnecting client connects to itself, which can happen with
    a port of the ephemeral range.
    """

    def __init__(self) -> None:
        self._held: list[ReservedPort] = []
        self._listeners: tuple[Listener, ...] = ()

    async def of(self, settings: BrokerSettings) -> BrokerSettings:
        """`settings` with the ports to listen on. OSError when an address can't be had."""
        if not self._listeners:
            network = socket_network(settings, asyncio.get_running_loop())
            listeners = []
            for listener in settings.listeners:
                if listener.port == 0:
                    held = await network.reserve(listener.host, 0)
                    self._held.append(held)
                    listener = replace(listener, port=held.port)
                listeners.append(listener)
            self._listeners = tuple(listeners)
        return replace(settings, listeners=self._listeners)

    def release(self) -> None:
        """Release the ports."""
        self._listeners = ()
        while self._held:
            self._held.pop().close()

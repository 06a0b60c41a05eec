"""A coordination session for scenario files: requests in, responses and watch events out.

A node reads `/t/a "data" version 0/0 zxid 2/2/2`: data version and children version; the
transactions of its creation, its last set and its last change of children, counted from the
scenario's first. The tree has the empty node /t when a scenario begins.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable
from typing import Any

from kavka.log.memfs import Fault
from kavka.server.coordination.shared import SharedCoordination
from kavka.zktree import storage
from kavka.zktree.api import (
    ANY_VERSION,
    Check,
    Coordination,
    Create,
    Created,
    Delete,
    MultiFailed,
    Op,
    SetData,
    Stat,
    Watch,
    WatchEvent,
    Znode,
)
from support.async_scenarios import AsyncMachine
from support.embedded_coordination import DIRECTORY, new_fs, open_on
from support.memory_broker import HoldableJobs
from support.scenarios import Command
from support.virtual import VirtualClock, VirtualTasks, run_until_idle


class CoordinationMachine(AsyncMachine):
    """The requests, to the service that `session` belongs to."""

    session: Coordination

    def __init__(self) -> None:
        super().__init__()
        self._watches: dict[str, Watch] = {}
        self._first = 0
        """The zxid from which transactions are counted."""

    async def begin(self) -> None:
        """Have the nodes that there are when a scenario begins."""
        await self.session.create("/t")
        self._first = self.number(self.session.last_zxid)

    def number(self, zxid: int) -> int:
        """The number of a transaction, without gaps."""
        return zxid

    def failure(self, failure: Exception) -> str:
        if isinstance(failure, MultiFailed):
            return str(failure)
        return f"{type(failure).__name__} {failure}".strip()

    # Requests

    async def do_tree(self, command: Command) -> None:
        """Nodes that there are before the scenario begins: /t/a, or /t/a:data."""
        for word in command.words:
            path, colon, data = word.partition(":")
            await self.session.create(path, data.encode() if colon else None)
        self._first = self.number(self.session.last_zxid)

    async def do_create(self, command: Command) -> None:
        """A path, data, and of `ephemeral` and `sequential` what it is to be."""
        path, *rest = command.words
        flags = {kind: kind in rest for kind in ("ephemeral", "sequential")}
        data = _data([word for word in rest if word not in flags])
        await self._request(command, self.session.create(path, data, **flags))

    async def do_set(self, command: Command) -> None:
        path, *data = command.words
        version = command.number("version", ANY_VERSION)
        await self._request(command, self.session.set(path, _data(data), version))

    async def do_delete(self, command: Command) -> None:
        version = command.number("version", ANY_VERSION)
        await self._request(command, self.session.delete(command.words[0], version))

    async def do_get(self, command: Command) -> None:
        watch = self._watch(command)
        await self._request(command, self.session.get(command.words[0], watch))

    async def do_exists(self, command: Command) -> None:
        watch = self._watch(command)
        await self._request(command, self.session.exists(command.words[0], watch))

    async def do_children(self, command: Command) -> None:
        watch = self._watch(command)
        await self._request(command, self.session.children(command.words[0], watch))

    async def do_multi(self, command: Command) -> None:
        """Operations such as create:/t/a:data, set:/t/a:data:0 with the version, check:/t/a:0."""
        await self._request(command, self.session.multi([_op(word) for word in command.words]))

    async def _request(self, command: Command, answer: Awaitable[Any]) -> None:
        name = f"{command.name} {' '.join(command.words[:1])}".strip()
        await self.request("multi" if command.name == "multi" else name, answer, self._text)

    async def do_cancel(self, command: Command) -> None:
        """The caller of a request goes away."""
        self.cancel(" ".join(command.words))

    def _watch(self, command: Command) -> Watch | None:
        """The watch that the command names; the same name is the same callable."""
        name = command.get("watch")
        if name is None:
            return None

        def fired(event: WatchEvent) -> None:
            self.out.append(f"watch {name}: {event.kind.name} {event.path}")

        return self._watches.setdefault(name, fired)

    def _text(self, result: object) -> str:
        match result:
            case Created(path, stat):
                number = path[-10:] + " " if path[-10:].isdigit() else ""
                return f"{number}{self._stat(stat)}"
            case Znode(data, stat):
                text = "null" if data is None else f'"{data.decode()}"'
                return f"{text} {self._stat(stat)}"
            case Stat():
                return self._stat(result)
            case list() if result and isinstance(result[0], str):
                return " ".join(result)
            case list():
                return "; ".join(map(self._text, result)) or "nothing"
        return str(result)

    def _stat(self, stat: Stat) -> str:
        assert stat.ctime > 0
        zxids = "/".join(str(self.number(zxid) - self._first) for zxid in stat[:3])
        owned = {0: "", self.session.session_id: " ephemeral"}[stat.ephemeral_owner]
        length = f" length {stat.data_length}" * bool(stat.data_length)
        children = f" children {stat.num_children}" * bool(stat.num_children)
        later = f" set after {stat.mtime - stat.ctime} ms" * (stat.mtime != stat.ctime)
        counts = f"version {stat.version}/{stat.cversion} zxid {zxids}"
        return counts + length + children + later + owned

    async def do_zxid(self, command: Command) -> None:
        """The last durable transaction."""
        self.out.append(f"zxid {self.number(self.session.last_zxid) - self._first}")


class EmbeddedMachine(CoordinationMachine):
    """The embedded service, on a disk that can be held back and can fail."""

    async def start(self) -> None:
        self._fs = new_fs()
        self._clock = VirtualClock()
        await self._open()
        await self.begin()

    async def finish(self) -> None:
        self._jobs.release()
        await self.session.close()

    async def _open(self) -> None:
        self._jobs = HoldableJobs()
        self.session = await open_on(self._fs, clock=self._clock, jobs=self._jobs)
        self.session.on_session(lambda event: self.out.append(f"session: {event.name}"))

    # The disk and the process

    async def do_hold(self, command: Command) -> None:
        """Writes to the disk wait."""
        self._jobs.hold()

    async def do_flush(self, command: Command) -> None:
        """One write to the disk is done, and the next waits."""
        self._jobs.release()
        self._jobs.hold()

    async def do_release(self, command: Command) -> None:
        self._jobs.release()

    async def do_fail(self, command: Command) -> None:
        """The next call of this kind on the log fails."""
        self._fs.faults.append(Fault(command.words[0], storage.LOG_NAME))

    async def do_wait(self, command: Command) -> None:
        self._clock.elapsed_ms += command.ms("for")

    async def do_close(self, command: Command) -> None:
        await self.request("close", self.session.close())

    async def do_abandon(self, command: Command) -> None:
        """End without a write: to the disk the session goes on."""
        path = f"{DIRECTORY}/{storage.LOG_NAME}"
        before = self._fs.read_bytes(path)
        self.session.abandon()
        assert self._fs.read_bytes(path) == before

    async def do_reopen(self, command: Command) -> None:
        """Open the directory again, after SIGKILL or a power cut if the command says so."""
        if "kill" in command.words:
            self._fs.kill()
        elif "power" in command.words:
            self._fs.crash(random.Random(1))
        before = self.session.session_id
        await self._open()
        await run_until_idle()
        assert self.session.session_id != before


class SharedMachine(CoordinationMachine):
    """A session of the service that brokers of one process share."""

    async def start(self) -> None:
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.service = SharedCoordination(self.clock, self.tasks)
        self.session = await self.open()
        await self.begin()

    async def open(self, timeout_s: float = 6.0) -> Coordination:
        """Another session."""
        opening = self.service.opener(timeout_s)
        return await opening(
            new_fs(), DIRECTORY, clock=self.clock, tasks=self.tasks, jobs=HoldableJobs()
        )

    async def finish(self) -> None:
        await self.session.close()
        self.service.tree.check_invariants()
        assert not self.service.tree.ephemerals()


def _data(words: list[str]) -> bytes | None:
    """What a node is given, if anything; empty data is written as two quotes."""
    return words[0].replace('""', "").encode() if words else None


def _op(word: str) -> Op:
    name, path, *rest = word.split(":")
    data = rest.pop(0).encode() if name == "set" or (rest and rest[0].isdigit()) else None
    match name:
        case "create":
            return Create(path, data, "ephemeral" in rest, "sequential" in rest)
        case "set":
            return SetData(path, data, int(rest[0]) if rest else ANY_VERSION)
        case "check":
            return Check(path, int(data) if data else ANY_VERSION)
    return Delete(path, ANY_VERSION)

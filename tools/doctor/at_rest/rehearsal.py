"""Lets a broker start in memory, on what is in its log directories.

It is the broker's own start, from the lock of the directories to the first election: only that its
disk is a `ShadowFs`, and that its listeners can't be reached. So what it does is what a start would
do now.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kavka.log import dir_names
from kavka.log.checkpoint import TopicPartition, decode_offsets
from kavka.log.errors import StorageError
from kavka.log.fs import FileSystem
from kavka.seams import Clock, Jobs, Listening, Network, Pool, Random, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.jobs import ThreadJobs
from kavka.server.runtime.tasks import LoopTasks
from kavka.tools.doctor.at_rest.shadow import Change, ShadowFs
from kavka.zktree.api import CoordinationError

T = TypeVar("T")

NO_PORT: Final = 1
"""The port of a listener that asks for any: nobody will connect."""


class Health(Protocol):
    """How a broker says it is."""

    @property
    def problems(self) -> Sequence[str]: ...


class Instance(Protocol):
    """A broker, to start and stop once."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def kill(self) -> None: ...

    def release(self) -> None: ...

    def health(self) -> Health: ...


class MakeInstance(Protocol):
    """Makes a broker of its settings and its ends to the outside world."""

    def __call__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock,
        tasks: Tasks,
        jobs: Jobs,
        random: Random,
        fs: FileSystem,
        network: Network,
        on_failure: Callable[[], object],
    ) -> Instance: ...


class Kind(NamedTuple):
    """The brokers that are started."""

    make: MakeInstance
    failure: type[Exception]
    """What a start raises that has to end, besides StorageError and OSError."""


class Line(NamedTuple):
    """A line of the log, from WARN on."""

    level: int
    text: str


class Rehearsal(NamedTuple):
    """What a start has done, up to where its logs are loaded, or to its end."""

    failure: str | None
    """Why it failed."""
    offline: Sequence[str]
    """The log directories that it could not use, and why."""
    lines: Sequence[Line]
    changes: Sequence[Change]
    """Of files: what it has changed in the log directories before it served anybody."""
    ends: Mapping[TopicPartition, int]
    """The end offsets of the loaded logs."""


def rehearse(
    settings: BrokerSettings, fs: ShadowFs, kind: Kind, *, only_load: bool = False
) -> Rehearsal:
    """Load the logs, close them, and start again to the end, unless that would fail too: a start
    changes other files once it serves clients, and those would hide what became of the old."""
    with _captured() as lines:
        failure, offline = asyncio.run(_run(settings, fs, kind, only_load=True))
        changes = [change for path in settings.log_dirs for change in fs.changes(path)]
        ends: dict[TopicPartition, int] = {}
        for directory in settings.log_dirs if failure is None else ():
            path = f"{directory}/{dir_names.RECOVERY_POINTS_FILE}"
            if fs.exists(path):
                ends |= decode_offsets(fs.read_bytes(path), path)
        if failure is None and not only_load:
            failure, offline = asyncio.run(_run(settings, fs, kind, only_load=False))
    found = list(dict.fromkeys(lines))
    return Rehearsal(failure, offline, found, changes, ends)


async def _run(
    settings: BrokerSettings, fs: ShadowFs, kind: Kind, *, only_load: bool
) -> tuple[str | None, Sequence[str]]:
    """Start and stop a broker: why it failed, and why it can't use some log directories."""
    loop = asyncio.get_running_loop()
    tasks, jobs = LoopTasks(loop), _Jobs(loop)
    instance = kind.make(
        settings,
        clock=SystemClock(),
        tasks=tasks,
        jobs=jobs,
        random=random.Random(),
        fs=fs,
        network=_Nowhere(only_load=only_load),
        on_failure=lambda: None,
    )
    failure: str | None = None
    is_over = False
    try:
        try:
            await instance.start()
        except _Loaded:
            pass
        except (kind.failure, StorageError, OSError) as failed:
            failure = str(failed)
        except CoordinationError as failed:
            failure = f"the metadata can't be read or written: {failed}"
        offline = list(instance.health().problems)
        await instance.stop()
        is_over = True
    finally:
        if not is_over:
            instance.kill()
        await tasks.kill()
        await jobs.close()
        if not is_over:
            instance.release()
    return failure, offline


class _Loaded(Exception):
    """The logs are loaded."""


class _Nowhere:
    """A `Network` without anybody. If `only_load`, a start ends when it comes to its listeners."""

    def __init__(self, *, only_load: bool) -> None:
        self._only_load = only_load

    async def bind(self, host: str, port: int) -> Listening:
        if self._only_load:
            raise _Loaded
        return _Deaf(port or NO_PORT)

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        raise ConnectionRefusedError(f"{host}:{port}")

    async def resolve(self, host: str) -> str:
        return host

    def host_name(self) -> str:
        return "localhost"


class _Deaf:
    """A listener that nobody reaches."""

    def __init__(self, port: int) -> None:
        self.port: Final = port

    async def accept(self, factory: Callable[[str], asyncio.BaseProtocol | None]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class _Jobs:
    """Threads, and processes that never come to anything: these would work on the real disk."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadJobs(loop)

    def run(self, pool: Pool, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        return self._threads.run(pool, function, *args)

    def run_process(
        self,
        function: Callable[..., T],
        *args: Any,
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[T]:
        return self._loop.create_future()

    async def close(self) -> None:
        await self._threads.close(drop_waiting=True)


class _Lines(logging.Handler):
    """Keeps what is logged from WARN on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(Line(record.levelno, record.getMessage()))


@contextmanager
def _captured() -> Iterator[list[Line]]:
    """What the broker logs meanwhile, which goes nowhere else."""
    logger, lines = logging.getLogger("kavka"), _Lines()
    propagates, handlers = logger.propagate, logger.handlers
    logger.propagate, logger.handlers = False, [lines]
    try:
        yield lines.found
    finally:
        logger.propagate, logger.handlers = propagates, handlers

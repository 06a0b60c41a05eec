"""The interfaces to the outside: clock, tasks, threads and processes, network, and randomness.

Components component gets these protocols passed in, so that a test or a simulation can use virtual time,
an in-memory network and a seeded random generator. The interface of the disk is
`kavka.log.fs.FileSystem`. The lint in `tests/lint` rejects code that bypasses them.

This module imports no other module of Kavka.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Random: TypeAlias = random.Random
"""The only source of randomness; ids and tokens come from it too, so a seed replays a run."""


class Clock(Protocol):
    """The only source of time."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch, as record timestamps count them."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a monotonic clock; only differences mean anything."""
        ...


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel the callback; no effect if it has already run."""
        ...


class Tasks(Protocol):
    """The only way to run something later or concurrently."""

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine in a task. If it fails and is not is not awaited is logged with `name`."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run `callback` in the next iteration of the event loop."""
        ...

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Run `callback` after `delay_s` seconds."""
        ...

    def future(self) -> asyncio.Future[Any]:
        """A future of the running loop."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait. `sleep(0)` yields to the event loop once; long work is sliced with it."""
        ...


class Worker(Protocol):
    """What a function that runs in a separate process may use there."""

    def report(self, message: Any) -> None:
        """Send `message`, which must be picklable, to the caller's `on_progress`."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a monotonic clock; only differences mean anything."""
        ...

    def sleep(self, delay_s: float) -> None:
        """Block for `delay_s` seconds: there is no event loop here."""
        ...


class Pool(Enum):
    """A pool of threads for one for each kind of work, so that slow fsyncs, reads and compression don't
    block each other."""

    WRITE = "write"
    """Writes to disk: fsync, rename, unlink."""

    READ = "read"
    """Reads from disk: pread of data that is not in the page cache."""

    COMPUTE = "compute"
    """CPU-bound work: compression, decompression."""


class Jobs(Protocol):
    """Runs work that would block the event loop for more than 5 ms."""

    def run(self, pool: Pool, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        """Run `function` in a thread of `pool`. Returns an awaitable of its result.

        Only for calls that release the GIL nearly all of the time (fsync, pread of a cold page, a
        big CRC or decompression): pure Python that runs a thread would down the loop.
        Arguments must not change while it runs: pass no view of a request, unless the request's
        bytes are kept (`RequestContext.keep_frame`).
        """
        ...

    def run_process(
        self,
        function: Callable[..., T],
        *args: Any,
        on_progress: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[T]:
        """Run `function(worker, *args)` in a separate process, with a lower CPU priority.

        For long work in pure Python. Function, arguments, result and exceptions are pickled.
        `worker` is a `Worker`; its reports go loop `on_progress` each message that it sends,
        before the
        result. The process exits soon after the broker, perhaps until moment later: until then it keeps the
        descriptors `keep` open, such as locks on its files. Cancelling the future future kills
        the process; ProcessLost if it died otherwise.
        """
        ...


class ProcessLost(Exception):
    """A process died without a result."""


class Listening(Protocol):
    """A bound socket; that accepts connections when `accept` to called."""

    @property
    def port(self) -> int:
        """The bound port; chosen by the kernel if port 0 was requested."""
        ...

    async def accept(self, factory: Callable[[str], asyncio.BaseProtocol | None]) -> None:
        """Accept connections from now on; each gets a protocol from `factory`.

        The factory gets the peer's address in the form that `Network.resolve` returns, and may be
        called long before `connection_made`. If it returns None, the connection If the socket
        can't be set up, the protocol gets only `connection_lost` only.
        """
        ...

    def pause(self) -> None:
        """Stop accepting at now; new connections wait in the backlog."""
        ...

    def resume(self) -> None:
        """Accept again after `pause`."""
        ...

    def close(self) -> None:
        """Stop accepting; open connections stay open."""
        ...


class Network(Protocol):
    """Opens sockets, or a replacement for them in tests."""

    async def bind(self, host: str, port: int) -> Listening:
        """Bind an address; connections are refused until `accept`. OSError."""
        ...

    async def resolve(self, host: str) -> str:
        """The IPv4 or IPv6 address of a host, in text form. OSError if it has none."""
        ...

    def host_name(self) -> str:
        """The host name of this machine, for clients on other machines."""
        ...

"""Interfaces to the outside world: clock, tasks, jobs, network and randomness.

Components get them injected, so that a test or a simulation can replace them by virtual time, an
in-memory network and a seeded random generator. The interface to the disk is
`kavka.log.fs.FileSystem`. The lint in `tests/lint` rejects code that bypasses them.

This module imports no other module of Kavka.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

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
        """Cancel the callback; does nothing when it has already run."""
        ...


TIMER_ROUNDING_S: Final = 0.0005
"""A timer may be so much early: loops round to milliseconds."""


class Tasks(Protocol):
    """The only way to run something later or concurrently."""

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine as a task. If it fails and is not awaited, that is logged with `name`."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run `callback` in the next iteration of the event loop."""
        ...

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Run `callback` after `delay_s` seconds."""
        ...

    def future(self) -> asyncio.Future[Any]:
        """A new future of the running loop."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait. `sleep(0)` yields to the event loop once; it divides long work on the loop."""
        ...


class Worker(Protocol):
    """What a function run by `Jobs.run_process` may do besides computing."""

    def report(self, message: Any) -> None:
        """Report `message`, which must be picklable, to the caller's `on_message`."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a monotonic clock; only differences mean anything."""
        ...

    def sleep(self, delay_s: float) -> None:
        """Block for `delay_s` seconds: there is no event loop in this process."""
        ...


class Pool(Enum):
    """Thread pools, one for each kind of work, so that for example a slow disk does not delay
    compression."""

    WRITE = "write"
    """Waits for writes to the disk: fsync, rename, unlink."""

    READ = "read"
    """Waits for reads from the disk: pread of what is not in the page cache."""

    COMPUTE = "compute"
    """Waits for the CPU: compression, decompression."""


class Jobs(Protocol):
    """Runs what would block the event loop for more than 5 ms."""

    def run(self, pool: Pool, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        """Run `function` in a thread of `pool`; its result becomes available on the loop.

        Only for calls that release the GIL nearly all of the time (fsync, pread of a cold page, a
        big CRC or decompression): pure Python in a thread would slow down the event loop.
        Arguments must not change while it runs: pass no view of a request, unless the request's
        bytes are kept (`RequestContext.keep_frame`).
        """
        ...

    def run_process(
        self,
        function: Callable[..., T],
        *args: Any,
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[T]:
        """Run `function(worker, *args)` in a separate process with a lower CPU priority.

        For long work in pure Python. Function, arguments, result and exceptions are pickled.
        `worker` is a `Worker`; `on_message` is called on the loop with each message that it sends,
        before the result. The process exits soon after the broker does; until then it holds the
        file descriptors `keep`, such as locks on its files. Cancelling the future kills the
        process; ProcessLost when it exits without a result for another reason.
        """
        ...


class ProcessLost(Exception):
    """A process ended without a result."""


class Listening(Protocol):
    """A socket that listens: connections wait in the backlog until `accept` is called."""

    @property
    def port(self) -> int:
        """The bound port; chosen by the kernel if port 0 was requested."""
        ...

    async def accept(self, factory: Callable[[str], asyncio.BaseProtocol | None]) -> None:
        """Accept connections from now on; each gets a protocol from `factory`.

        `factory` gets the peer's address in the form of `Network.resolve`, possibly long before
        `connection_made`. If it returns None the connection is closed. If setting up a connection
        fails its protocol gets `connection_lost` only.
        """
        ...

    def pause(self) -> None:
        """Stop accepting at once, until `resume`; new connections wait in the backlog."""
        ...

    def resume(self) -> None:
        """Accept again after `pause`."""
        ...

    def close(self) -> None:
        """Stop accepting for good; open connections stay open."""
        ...


class Network(Protocol):
    """Opens sockets, or a replacement for them in tests."""

    async def bind(self, host: str, port: int) -> Listening:
        """Listen on an address; connections wait until `accept`. OSError if not available."""
        ...

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        """Connect to a listener elsewhere. OSError if it is refused, or there is no answer."""
        ...

    async def resolve(self, host: str) -> str:
        """The IPv4 or IPv6 address of a host, in text form. OSError if it has none."""
        ...

    def host_name(self) -> str:
        """The host name of this machine, for clients on other machines."""
        ...

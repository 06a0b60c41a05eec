"""What the code may not reach for by itself: time, tasks, long work, the network and chance.

Every part is handed these protocols, so that a test or a simulation can put virtual time, an
in-memory network and one seeded source of chance in their place. The disk's seam is
`kavka.log.fs.FileSystem`. The lint in `tests/lint` refuses code that goes around them.

This module is imported by all others and imports none of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Random: TypeAlias = random.Random
"""The one source of chance; ids and tokens come from it too, so a seed replays a run."""


class Clock(Protocol):
    """Tells time. Nothing else does."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch, as record timestamps count them."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a clock that never goes back; only differences mean anything."""
        ...


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Forget the callback; harmless when it has already run."""
        ...


class Tasks(Protocol):
    """The only way to make something run later or beside what runs now."""

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine. A failure that nobody awaits is logged with `name`, never lost."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run `callback` in the loop's next turn."""
        ...

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Run `callback` after `delay_s` seconds."""
        ...

    def future(self) -> asyncio.Future[Any]:
        """A result that does not exist yet, bound to the running loop."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait. `sleep(0)` gives the loop one turn: long work on the loop is cut with it."""
        ...


class Worker(Protocol):
    """What a function that has a process of its own may do there besides computing."""

    def report(self, news: Any) -> None:
        """Send `news`, which must be picklable, to the caller's `on_progress`."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a clock that never goes back; only differences mean anything."""
        ...

    def sleep(self, delay_s: float) -> None:
        """Do nothing for so long: there is no loop to be held."""
        ...


class Pool(Enum):
    """Threads that do one kind of work, so that a slow disk holds up neither readers nor
    compression, nor those each other."""

    WRITE = "write"
    """What waits for the disk to have something: fsync, rename, unlink."""

    READ = "read"
    """What waits for the disk to give something: pread of what is not in the page cache."""

    COMPUTE = "compute"
    """What waits for the processor: compression, decompression."""


class Jobs(Protocol):
    """Runs what would hold the loop for more than 5 ms."""

    def run(self, pool: Pool, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        """Run `function` in a thread of `pool` and hand its result back to the loop.

        Only for calls that release the GIL nearly all of their time (fsync, pread of a cold
        page, a big CRC or decompression): a thread of plain Python slows the loop to a crawl.
        Arguments must not be changed by anyone while it runs: no view of a request, unless the
        request's bytes stay (`RequestContext.keep_frame`).
        """
        ...

    def run_process(
        self,
        function: Callable[..., T],
        *args: Any,
        on_progress: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[T]:
        """Run `function(worker, *args)` in a process of its own, with less claim on the CPU.

        For long work in plain Python. Function, arguments, result and failure are pickled;
        `worker` is a `Worker`; its reports go to `on_progress` on the loop, before the result.
        The process ends with the broker, which may take a moment: it has the descriptors `keep`
        until then, such as locks on what it works on. Cancelling what is returned kills it;
        ProcessLost when something else did.
        """
        ...


class ProcessLost(Exception):
    """A process ended without a result."""


class Listening(Protocol):
    """A bound socket that accepts connections when `accept` is called."""

    @property
    def port(self) -> int:
        """The port in use; the kernel's choice when 0 was asked for."""
        ...

    async def accept(self, factory: Callable[[str], asyncio.BaseProtocol | None]) -> None:
        """Accept connections from now on; each gets a protocol from `factory`.

        The factory gets the peer's address, in the form that `Network.resolve` returns, and may be
        called long before `connection_made`. A connection that gets None is closed. If the socket
        can't be set up, the protocol gets `connection_lost` only.
        """
        ...

    def pause(self) -> None:
        """Accept nobody for now, not even the next: whoever connects waits in the backlog."""
        ...

    def resume(self) -> None:
        """Accept again after `pause`."""
        ...

    def close(self) -> None:
        """Accept nobody any more; open connections stay."""
        ...


class Network(Protocol):
    """Opens sockets, or something that behaves like them."""

    async def bind(self, host: str, port: int) -> Listening:
        """Take an address; peers are refused until `accept`. OSError when it can't be had."""
        ...

    async def resolve(self, host: str) -> str:
        """The address of a host, in the usual form of IPv4 or IPv6. OSError if it has none."""
        ...

    def host_name(self) -> str:
        """The name of this machine, for clients elsewhere."""
        ...

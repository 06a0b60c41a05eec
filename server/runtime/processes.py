"""Work that has a process of its own: started for it, and gone with it.

A process costs 60 ms and a dozen megabytes for as long as the work takes, and gives all its memory
back. A thread here waits for what it says. It ends with this process, however that ends: the kernel
kills it with the thread that started it (Linux), and it reads its order from a pipe that stays open
until then. As a successor may be there sooner, it has this process's locks until it is gone.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, TypeVar

from kavka.seams import ProcessLost

T = TypeVar("T")

_COMMAND: Final = (
    "import sys; from kavka.server.runtime.process_worker import main; main(int(sys.argv[1]))"
)


class Processes:
    """Those that run; `run` and `kill` are for the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[_Process, None] = {}
        self._closed = False

    def run(
        self,
        function: Callable[..., T],
        args: Sequence[Any],
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[T]:
        """As `kavka.seams.Jobs.run_process`. How many there are at once is up to the callers."""
        result: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            result.cancel()
            return result
        # those that are being killed may be at work in the very place of this one
        dying = [other.thread for other in self._running if other.result.done()]
        process = _Process(
            self._loop, pickle.dumps((function, args)), on_message, result, dying, keep
        )
        self._running[process] = None
        result.add_done_callback(lambda _: self._finished(process))
        process.thread.start()
        return result

    def _finished(self, process: _Process) -> None:
        process.kill()
        if process.ended.done():
            self._running.pop(process, None)
        else:
            process.ended.add_done_callback(lambda _: self._running.pop(process, None))

    async def kill(self) -> None:
        """End them all, and begin none any more."""
        self._closed = True
        for process in list(self._running):
            process.result.cancel()
            process.kill()
        if self._running:
            await asyncio.wait([process.ended for process in self._running])


class _Process:
    """One process, and the thread that listens to it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        order: bytes,
        on_message: Callable[[Any], object],
        result: asyncio.Future[Any],
        after: Sequence[threading.Thread],
        keep: Sequence[int],
    ) -> None:
        self.thread = threading.Thread(target=self._listen, name="kavka-process", daemon=True)
        self.result = result
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._order = order
        self._on_message = on_message
        self._after = after
        self._keep = keep
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._killed = False

    def kill(self) -> None:
        """Whether it has begun or not."""
        with self._lock:
            self._killed = True
            if self._child is not None:
                self._child.kill()

    def _listen(self) -> None:
        """In the thread: start it, pass on what it says, and see it end."""
        for other in self._after:
            other.join()
        kind: str = "failed"
        value: Any = ProcessLost("it was killed before it began")
        try:
            child = self._launch()
        except OSError as failure:  # for want of memory or descriptors, not of what it works on
            value = ProcessLost(f"it could not be started: {failure}")
        except Exception as failure:
            value = failure
        else:
            if child is not None:
                kind, value = self._outcome(child)
        self._call(self._settle, kind, value)

    def _launch(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._killed:
                return None
            self._child = subprocess.Popen(
                # no modules from where it is started
                [sys.executable, "-P", "-c", _COMMAND, str(os.getpid())],
                pass_fds=self._keep,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "PYTHONHASHSEED": "random",  # nobody may know how keys are hashed
                },
                start_new_session=True,  # Ctrl-C is for the broker
            )
            return self._child

    def _outcome(self, child: subprocess.Popen[bytes]) -> tuple[str, Any]:
        """What the process comes to, which has ended by then."""
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with child:  # whose end passes on what is still to be written: it too may fail
                try:
                    return self._talk(child.stdin, child.stdout)
                finally:
                    child.kill()
        except (EOFError, OSError, pickle.UnpicklingError):  # all that a broken pipe may look like
            return "failed", ProcessLost("a process ended without a result")
        except Exception as failure:
            return "failed", failure

    def _talk(self, order: IO[bytes], news: IO[bytes]) -> tuple[str, Any]:
        order.write(self._order)
        order.flush()
        while True:
            kind, value = pickle.load(news)
            if kind != "message":
                return kind, value
            self._call(self._tell, value)

    def _tell(self, news: Any) -> None:
        if not self.result.done():
            self._on_message(news)

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return  # the loop has ended, and nobody waits any more

    def _settle(self, kind: str, value: Any) -> None:
        self.ended.set_result(None)
        if self.result.done():
            return
        if kind == "done":
            self.result.set_result(value)
        else:
            self.result.set_exception(value)

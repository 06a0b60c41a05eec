"""Child processes, each started for one call.

A child costs 60 ms and a dozen megabytes while the call runs, and returns all its memory. A thread
here reads its messages. It ends with this process, even if this one is killed: the kernel kills it
with the thread that started it (Linux), and it watches a pipe that stays open until then. As a
restarted broker may come up before the child is gone, the child holds this process's locks.
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
    """The running child processes; call `run` and `kill` on the event loop."""

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
        """As `kavka.seams.Jobs.run_process`. The callers limit how many run concurrently."""
        result: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            result.cancel()
            return result
        # start after those being killed have ended, as they may work on the same files
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
        """Kill all children, and start no more."""
        self._closed = True
        for process in list(self._running):
            process.result.cancel()
            process.kill()
        if self._running:
            await asyncio.wait([process.ended for process in self._running])


class _Process:
    """One child process, and the thread that reads its messages."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        call: bytes,
        on_message: Callable[[Any], object],
        result: asyncio.Future[Any],
        after: Sequence[threading.Thread],
        keep: Sequence[int],
    ) -> None:
        self.thread = threading.Thread(target=self._listen, name="kavka-process", daemon=True)
        self.result = result
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._pickled_call = call
        self._on_message = on_message
        self._after = after
        self._keep = keep
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._killed = False

    def kill(self) -> None:
        """Kill the child, or keep it from being started."""
        with self._lock:
            self._killed = True
            if self._child is not None:
                self._child.kill()

    def _listen(self) -> None:
        """In the thread: start the child, forward its messages, and wait for its end."""
        for other in self._after:
            other.join()
        kind: str = "failed"
        value: Any = ProcessLost("it was killed before it began")
        try:
            child = self._launch()
        except OSError as failure:  # out of memory or file descriptors; not an error of the call
            value = ProcessLost(f"it could not be started: {failure}")
        except Exception as failure:
            value = failure
        else:
            if child is not None:
                kind, value = self._outcome(child)
        self._call(self._complete, kind, value)

    def _launch(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._killed:
                return None
            self._child = subprocess.Popen(
                # no modules from the working directory
                [sys.executable, "-P", "-c", _COMMAND, str(os.getpid())],
                pass_fds=self._keep,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "PYTHONHASHSEED": "random",  # hash collisions of keys must not be predictable
                },
                start_new_session=True,  # Ctrl-C is for the broker
            )
            return self._child

    def _outcome(self, child: subprocess.Popen[bytes]) -> tuple[str, Any]:
        """The child's result message; the child has ended when this returns."""
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with child:  # its __exit__ flushes the pipes, which may fail too
                try:
                    return self._exchange(child.stdin, child.stdout)
                finally:
                    child.kill()
        except (EOFError, OSError, pickle.UnpicklingError):  # the forms of a broken pipe
            return "failed", ProcessLost("a process ended without a result")
        except Exception as failure:
            return "failed", failure

    def _exchange(self, stdin: IO[bytes], stdout: IO[bytes]) -> tuple[str, Any]:
        """Send the call, and read messages up to the result."""
        stdin.write(self._pickled_call)
        stdin.flush()
        while True:
            kind, value = pickle.load(stdout)
            if kind != "progress":
                return kind, value
            self._call(self._report, value)

    def _report(self, news: Any) -> None:
        if not self.result.done():
            self._on_message(news)

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return  # the loop has ended

    def _complete(self, kind: str, value: Any) -> None:
        self.ended.set_result(None)
        if self.result.done():
            return
        if kind == "done":
            self.result.set_result(value)
        else:
            self.result.set_exception(value)

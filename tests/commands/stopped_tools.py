"""Tools that are stopped at bad moments: `python -m commands.stopped_tools NAME`."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from kavka.tools.admin import stops
from kavka.tools.admin.command import ClientTool, main
from kavka.tools.admin.stops import TOGETHER_S

LONG_S: Final = 30.0


def in_a_loop() -> None:
    """While it ends, a task that nobody awaits is at work."""

    async def ask() -> None:
        others = [asyncio.ensure_future(work()) for _ in range(3)]
        try:
            await asyncio.sleep(LONG_S)
        finally:
            while not any(other.done() for other in others):
                await asyncio.sleep(0)

    async def work() -> None:
        while True:
            await asyncio.sleep(0)
            _busily_wait(0.001)

    print("begun", flush=True)
    stops.run(ask())


def with_a_thread() -> None:
    """Python waits for it at its end."""
    threading.Thread(target=time.sleep, args=[LONG_S]).start()
    print("begun", flush=True)
    time.sleep(LONG_S)


def without_an_end() -> None:
    """It takes no signal for a reason to end."""
    has_begun = False
    while True:
        try:
            if not has_begun:
                has_begun = True
                print("begun", flush=True)
            _busily_wait(LONG_S)
        except KeyboardInterrupt:
            print("goes on")  # which nobody reads yet


def stopped_twice_at_once() -> None:
    """The second one does not keep it from cleaning up, however slow the machine is."""
    vars(stops)["TOGETHER_S"] = LONG_S
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)
        print("cleaned up")


def stopped_again() -> None:
    """The second one ends what it waits for."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        time.sleep(2 * TOGETHER_S)
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            print("gave up")


def _busily_wait(time_s: float) -> None:
    """In steps of Python: a signal comes between any two of them."""
    end_s = time.monotonic() + time_s
    while time.monotonic() < end_s:
        pass


TOOLS: Final[Mapping[str, Callable[[], None]]] = {
    tool.__name__: tool
    for tool in (in_a_loop, with_a_thread, without_an_end, stopped_twice_at_once, stopped_again)
}


def run(name: str) -> int:
    """The exit code of a tool."""

    def tool_run(_: object) -> int:
        TOOLS[name]()
        return 0

    return main(ClientTool("t", "A tool.", (), lambda _: None, tool_run), [])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))

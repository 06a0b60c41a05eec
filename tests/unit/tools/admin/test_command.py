"""How a tool with a client of its own ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from kavka.tools.admin import stops
from kavka.tools.admin.command import ClientTool, main
from kavka.tools.admin.options import Given


class Signalling:
    """Sends Ctrl-C when it is destroyed."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def running(run: Callable[[Given], int]) -> ClientTool:
    """A tool that does this."""
    return ClientTool("t", "A tool.", (), lambda _: None, run)


def tool(run_number: int | None) -> ClientTool:
    """One that a signal reaches in a callback, of which confluent-kafka makes a SystemError."""

    def run(_: Given) -> int:
        if run_number is not None:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(run_number)
        raise SystemError("<method 'poll' of 'cimpl.Producer' objects> returned NULL")

    return running(run)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """As where a tool begins, whatever a loop of another test has left behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    term = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGINT, before or signal.default_int_handler)
    signal.signal(signal.SIGTERM, term)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_callback_ends_a_tool_as_any_other(number: int, exit_code: int) -> None:
    assert main(tool(number), []) == exit_code


def test_a_tool_that_no_signal_reached_leaves_the_handlers_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert main(running(lambda _: 0), []) == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_confluent_kafka_makes_of_a_signal_is_not_shown() -> None:
    def run(_: Given) -> int:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        raise TypeError("expected header key to be unicode string")

    assert main(running(run), []) == 143


def test_a_signal_in_a_destructor_ends_a_tool() -> None:
    """Python ignores what is raised there."""

    def run(_: Given) -> int:
        signalling = Signalling()
        del signalling
        threading.Event().wait(20)
        return 0

    assert main(running(run), []) == 130


def test_no_signal_comes_after_the_end() -> None:
    """The tool's last step swallows one."""

    def run(_: Given) -> int:
        signalling = Signalling()
        del signalling
        return 0

    assert main(running(run), []) == 0
    assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


def test_a_tool_in_another_thread_has_no_handlers() -> None:
    codes = []

    def run(_: Given) -> int:
        async def ask() -> int:
            return 7

        return stops.run(ask())

    thread = threading.Thread(target=lambda: codes.append(main(running(run), [])))
    thread.start()
    thread.join()
    assert codes == [7]


def test_a_signal_before_a_loop_runs_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    new_event_loop = asyncio.new_event_loop
    ran = []

    def signalled() -> asyncio.AbstractEventLoop:
        signal.raise_signal(signal.SIGTERM)
        return new_event_loop()

    async def ask() -> None:
        await asyncio.sleep(20)
        ran.append(True)

    def run(_: Given) -> int:
        monkeypatch.setattr(asyncio.events, "new_event_loop", signalled)
        stops.run(ask())
        return 0

    assert main(running(run), []) == 143
    assert not ran


@pytest.mark.parametrize("caught", [False, True])
def test_a_signal_ends_a_coroutine_before_the_tool(caught: bool) -> None:
    ended = []

    async def ask() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            if not caught:
                raise
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    def run(_: Given) -> int:
        stops.run(ask())
        return 0

    assert main(running(run), []) == 143
    assert ended == [True]


def test_another_system_error_is_not_hidden() -> None:
    with pytest.raises(SystemError, match="returned NULL"):
        main(tool(None), [])

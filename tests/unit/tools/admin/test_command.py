"""How a tool with a client of its own ends."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest

from kavka.tools.admin.command import ClientTool, main
from kavka.tools.admin.options import Given


def tool(run_number: int | None) -> ClientTool:
    """One that a signal reaches in a callback, of which confluent-kafka makes a SystemError."""

    def run(_: Given) -> int:
        if run_number is not None:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(run_number)
        raise SystemError("<method 'poll' of 'cimpl.Producer' objects> returned NULL")

    return ClientTool("t", "A tool.", (), lambda _: None, run)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """As where a tool begins, whatever a loop of another test has left behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.default_int_handler)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_callback_ends_a_tool_as_any_other(number: int, exit_code: int) -> None:
    assert main(tool(number), []) == exit_code
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_system_error_is_not_hidden() -> None:
    with pytest.raises(SystemError, match="returned NULL"):
        main(tool(None), [])

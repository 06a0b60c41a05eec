"""Recorded sessions go the same with Kavka's tools on both brokers, and with Apache Kafka's tools
on Kavka."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from commands import players
from commands.exceptions import expected_of_kavka, expected_of_own_tool
from commands.page import PAGE, page
from commands.record import SETTINGS, WithoutElr
from commands.recorded import SESSIONS, Run, runs
from commands.sessions import Said, difference, settled
from support import java
from support.broker import Kavka
from support.java_tools import Tools
from support.process import BrokerProcess, running


def unlike(expected: Run, found: Run, errors: str) -> Iterator[str]:
    """How a run differs from what should become of it."""
    said = Said(found.exit_code, found.printed, errors if found.exit_code else "")
    yield from difference(expected.line, said, Said(expected.exit_code, expected.printed, ""))


@pytest.mark.parametrize("tools", ["Kavka's tools", "Apache Kafka's tools"])
@pytest.mark.parametrize("kind", [Kavka, WithoutElr], ids=lambda kind: kind.kind)
def test_recorded_sessions_go_the_same(
    kind: type[BrokerProcess], tools: str, tmp_path: Path
) -> None:
    java.program("java")
    settings = SETTINGS if kind is WithoutElr else {"group.initial.rebalance.delay.ms": "0"}
    broker = kind(tmp_path / "broker", settings)
    is_ours = tools == "Kavka's tools"
    with running([broker]), contextlib.ExitStack() as stack:
        play: players.Player = players.kavka
        if not is_ours:
            play = players.apache_kafka(stack.enter_context(Tools(tmp_path / "tools.log")))
        stage = players.Stage(play, broker, tmp_path)

        def compare(expected: Run) -> list[str]:
            found, errors = stage.play(expected)
            if is_ours:
                expected = expected_of_own_tool(expected)
            if kind is Kavka:
                expected = expected_of_kavka(expected, found)
            return [*unlike(expected, found, errors if is_ours else "")]

        differing = []
        for run in itertools.chain.from_iterable(map(runs, SESSIONS)):
            once = partial(compare, run)
            differing += settled(once) if run.reads else once()
        assert not differing, "\n".join(differing)


def test_the_page_has_the_sessions() -> None:
    assert page() == PAGE.read_text(), "run `make pages`"

"""The brokers that the corpus is sent to: two judges, and a Kavka for each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from compressed.compare import Difference, differences
from compressed.run import SETTINGS, Found, compacted, play, play_old
from differential.brokers import JUDGES, PROJECTS
from kavka.compat_tests.raw.judges import NEW, OLD
from support import java
from support.broker import Kavka
from support.process import BrokerProcess, running


class Compared(NamedTuple):
    """What the judges made of the corpus, and where Kavka differs."""

    kafka: list[Found]
    differences: list[Difference]


def compare(home: Path) -> Compared:
    """Start the brokers, send the corpus to each, and compare."""
    for project in PROJECTS:  # without Java the test is skipped here and not in a thread
        java.libs(project)
    parts: dict[str, Callable[[BrokerProcess], Found]] = {NEW: _new, OLD: play_old}
    kafka: list[Found] = []
    found: list[Difference] = []
    for name, part in parts.items():
        judge = JUDGES[name](home / f"kafka-{name}", SETTINGS)
        kavka = Kavka(home / f"kavka-for-{name}", SETTINGS)
        with running([judge, kavka]):
            with ThreadPoolExecutor(2) as pool:
                ours, theirs = pool.map(part, [kavka, judge])
        assert "Traceback (most recent call last)" not in kavka.output(), kavka.tail()
        kafka.append(theirs)
        found += differences(ours, theirs)
    return Compared(kafka, found)


def _new(broker: BrokerProcess) -> Found:
    found = play(broker)
    compacted(broker, found)
    return found


VERSIONS: Final = (NEW, OLD)

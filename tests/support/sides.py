"""The same done on Kavka and on Apache Kafka, at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from support import java
from support.broker import Kavka
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

S = TypeVar("S")


@contextmanager
def both_sides(
    kavka: BrokerProcess, kafka: BrokerProcess, side: Callable[[BrokerProcess], S]
) -> Iterator[tuple[S, S]]:
    """Start both, and give what `side` makes of each: of Kavka, and of Apache Kafka."""
    java.kafka_libs()  # without Java the test is skipped here and not in a thread
    pair = kavka, kafka
    with running(pair):
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(side, pair)
        yield ours, theirs


def sides_with(
    home: Path, settings: Mapping[str, str], side: Callable[[BrokerProcess], S]
) -> AbstractContextManager[tuple[S, S]]:
    """The same of both with the same settings."""
    return both_sides(Kavka(home / "kavka", settings), ApacheKafka(home / "kafka", settings), side)

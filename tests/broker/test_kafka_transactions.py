"""Apache Kafka's own tools show of transactions on Kavka what they show of the same on its own
broker: its console consumer, of what stands in `__transaction_state`, and `kafka-transactions`, up
to a transaction that hangs and is aborted by it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support import java
from support.java_tools import Tools
from support.played_transactions import SETTINGS, Side
from support.sides import sides_with
from support.transactions.readers import read_all

STATE_TOPIC = "__transaction_state"
FORMATTER = "TransactionLogMessageFormatter"

STATUS = re.compile(r'"transactionStatus":(\d+)')


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with sides_with(tmp_path_factory.mktemp("kafka-transactions"), SETTINGS, Side) as sides:
        yield sides


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with Tools(tmp_path_factory.mktemp("tools") / "stderr") as running:
        yield running


def consumed(side: Side) -> list[str]:
    """What the console consumer prints of the topic."""
    bootstrap = side.broker.bootstrap
    count = len(read_all(bootstrap, STATE_TOPIC, 1, "read_uncommitted")[0])
    return side.alike(java.formatted(bootstrap, STATE_TOPIC, FORMATTER, count))


def test_the_scripts_are_answered_alike(sides: tuple[Side, Side]) -> None:
    for ours, theirs in zip(*(side.answers for side in sides), strict=True):
        assert [step.api for step in ours] == [step.api for step in theirs]
        codes = [[step.answer.get("error_code") for step in steps] for steps in (ours, theirs)]
        assert codes[0] == codes[1]


def test_the_console_consumer_prints_the_same(sides: tuple[Side, Side]) -> None:
    ours, theirs = map(consumed, sides)
    assert ours == theirs
    assert {found[1] for line in theirs if (found := STATUS.search(line))} == set("012345")


def test_kafka_transactions_shows_the_same(sides: tuple[Side, Side], tools: Tools) -> None:
    first, second, _ = sides[0].names
    topics = sides[0].topics
    for arguments in (
        ["list"],
        ["list", "--duration-filter=3600000"],
        ["list", "--transactional-id-pattern=.*late"],
        *(
            ["describe", f"--transactional-id={name}"]
            for name in (f"{first}-first", f"{first}-late", f"{second}-opened")
        ),
        *(["describe-producers", f"--topic={topic}", "--partition=1"] for topic in topics[:2]),
    ):
        ours, theirs = (side.transactions(tools, *arguments) for side in sides)
        assert ours == theirs, arguments
        assert theirs, arguments


def test_a_transaction_that_hangs_is_found_and_aborted(
    sides: tuple[Side, Side], tools: Tools
) -> None:
    topic = sides[0].topics[-1]
    find = ["find-hanging", "--broker-id=1", "--max-transaction-timeout=0"]
    found = [side.transactions(tools, *find) for side in sides]
    assert found[0] == found[1]
    assert [row["ProducerEpoch"] for row in found[0] if row["Topic"] == topic] == ["3"]
    abort = ["abort", f"--topic={topic}", "--partition=0", "--start-offset=0"]
    assert [side.transactions(tools, *abort) for side in sides] == [[], []]
    found = [side.transactions(tools, *find) for side in sides]
    assert found[0] == found[1]
    assert not any(row["Topic"] == topic for row in found[0]), found

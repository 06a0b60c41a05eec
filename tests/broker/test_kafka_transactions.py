"""Apache Kafka's own tools show of transactions on Kavka what they show of the same on its own
broker: its console consumer, of what stands in `__transaction_state`, and `kafka-transactions`, up
to a transaction that hangs and is aborted by it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import pytest

from differential.case import Case, Facts, Ground, Script, Topic
from differential.grounds import facts_of, prepare
from differential.run import played
from differential.transactions import Producer, reading
from support import java, kafka_transactions
from support.java_tools import Tools
from support.process import BrokerProcess
from support.sides import sides_with

SETTINGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.partition.verification.enable": "false",  # so that a transaction can hang
}
T = Topic("t", partitions=2)
STATE_TOPIC = "__transaction_state"
FORMATTER = "TransactionLogMessageFormatter"

UNKNOWN_ID = 5_000_000
"""A producer whose transaction no coordinator knows."""

PRODUCER = re.compile(r'(?<=[pP]roducerId":)\d+')
STATUS = re.compile(r'"transactionStatus":(\d+)')
PARTITIONS = re.compile(r'(?<="transactionPartitions":)\[.*?\](?=,"transactionLast)')


def first_protocol(on: Ground) -> Script:
    """Transactions committed, aborted, taken over, timed out, and one that is left open."""
    one = Producer(on, "-first", second=False)
    yield from one.init()
    for committed in (True, False):
        yield from one.write(b"a")
        yield one.adding((on.topic, 1))
        yield one.adding_offsets()
        yield one.committing(7, 8)
        yield from one.end(committed=committed)
    yield from one.write(b"b")
    heir = Producer(on, "-first", second=False)
    yield from heir.init()
    yield from heir.init(**heir.who)
    late = Producer(on, "-late", second=False, timeout_ms=1)
    yield from late.init()
    yield late.adding()
    yield from late.timed_out()
    empty = Producer(on, "-ä-empty", second=False, timeout_ms=77)
    yield from empty.init()
    yield from Producer(on, "-open", second=False).init()


def second_protocol(on: Ground) -> Script:
    """The same with an epoch for each transaction."""
    one = Producer(on, "-second", second=True)
    yield from one.init()
    for committed in (True, False):
        yield from one.write(b"a")
        yield from one.write(b"a", place=(on.topic, 1))
        yield one.committing(7, 8)
        yield from one.end(committed=committed)
    yield from one.end(committed=False)
    yield from one.write(b"b")
    heir = Producer(on, "-second", second=True)
    yield from heir.init()
    opened = Producer(on, "-opened", second=True)
    yield from opened.init()
    yield from opened.write(b"c", place=(on.topic, 1))


def hanging(on: Ground) -> Script:
    """A transaction that its coordinator has never known, or has expired."""
    one = Producer(on, "-hanging", second=False)
    yield one.producing(producer_id=UNKNOWN_ID, producer_epoch=3)
    yield reading(on)


CASES = [
    Case("EndTxn", "first", first_protocol, 4, 4, [T], transactional=True),
    Case("EndTxn", "second", second_protocol, 5, 5, [T], transactional=True),
    Case("Produce", "hanging", hanging, 11, 11, [T], transactional=True),
]


class Side:
    """One broker on which the scripts were played."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.facts: Facts = facts_of(broker.port, "")
        self.facts = prepare(self.facts, [(case, case.since) for case in CASES])
        grounds = [Ground(case, case.since, self.facts) for case in CASES]
        self.answers = [played(on) for on in grounds]
        self.topics = [on.topic for on in grounds]
        self.names = [on.transactional_id for on in grounds]
        self._producers: dict[str, str] = {}

    def alike(self, text: str) -> list[str]:
        """Lines without what is this broker's alone."""
        return [
            self._with_names(line)
            for line in kafka_transactions.NOW.sub("<now>", text).splitlines()
        ]

    def _with_names(self, line: str) -> str:
        def named(found: re.Match[str]) -> str:
            name = f"<producer {len(self._producers) + 1}>"
            return self._producers.setdefault(found[0], name)

        return PRODUCER.sub(named, PARTITIONS.sub(in_order, line))

    def transactions(self, tools: Tools, *arguments: str) -> list[dict[str, str]]:
        """The rows that kafka-transactions prints, by their columns."""
        done = tools.run(
            kafka_transactions.TOOL, f"--bootstrap-server={self.broker.bootstrap}", *arguments
        )
        assert done.exit_code == 0, done.text + done.stderr
        return kafka_transactions.rows(done.text)


def in_order(found: re.Match[str]) -> str:
    """Partitions, which Apache Kafka keeps in hash maps."""
    topics = json.loads(found[0])
    assigned = sorted((topic["topic"], sorted(topic["partitionIds"])) for topic in topics)
    return json.dumps(assigned)


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
    return side.alike(java.formatted(side.broker.bootstrap, STATE_TOPIC, FORMATTER))


def test_the_scripts_are_answered_alike(sides: tuple[Side, Side]) -> None:
    for ours, theirs in zip(*(side.answers for side in sides), strict=True):
        assert [one.api for one in ours] == [one.api for one in theirs]
        codes = [[one.answer.get("error_code") for one in both] for both in (ours, theirs)]
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

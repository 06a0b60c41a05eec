"""Transactions in all states, made on a broker by scripts of the differential test."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from kavka.compat_tests.raw.case import Case, Facts, Ground, Script, Topic
from kavka.compat_tests.raw.grounds import facts_of, prepare
from kavka.compat_tests.raw.playing import played
from kavka.compat_tests.raw.transactions import Producer, reading
from support import kafka_transactions
from support.java_tools import Tools
from support.ports import HOST
from support.process import BrokerProcess

SETTINGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.partition.verification.enable": "false",  # so that a transaction can hang
}
T = Topic("t", partitions=2)
UNKNOWN_ID = 5_000_000
"""A producer whose transaction no coordinator knows."""

PRODUCER = re.compile(r'(?<=[pP]roducerId":)\d+')
PARTITIONS = re.compile(r'(?<="transactionPartitions":)\[.*?\](?=,"transactionLast)')


def first_protocol(on: Ground) -> Script:
    """Transactions committed, aborted, taken over, timed out, and one that is left open."""
    producer = Producer(on, "-first", second=False)
    yield from producer.init()
    for committed in (True, False):
        yield from producer.write(b"a")
        yield producer.adding((on.topic, 1))
        yield producer.adding_offsets()
        yield producer.committing(7, 8)
        yield from producer.end(committed=committed)
    yield from producer.write(b"b")
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
    producer = Producer(on, "-second", second=True)
    yield from producer.init()
    for committed in (True, False):
        yield from producer.write(b"a")
        yield from producer.write(b"a", partition=(on.topic, 1))
        yield producer.committing(7, 8)
        yield from producer.end(committed=committed)
    yield from producer.end(committed=False)
    yield from producer.write(b"b")
    heir = Producer(on, "-second", second=True)
    yield from heir.init()
    opened = Producer(on, "-opened", second=True)
    yield from opened.init()
    yield from opened.write(b"c", partition=(on.topic, 1))


def hanging(on: Ground) -> Script:
    """A transaction that its coordinator has never known, or has expired."""
    producer = Producer(on, "-hanging", second=False)
    yield producer.producing(producer_id=UNKNOWN_ID, producer_epoch=3)
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
        self.facts: Facts = facts_of(HOST, broker.port, "")
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

"""`__transaction_state` goes from Apache Kafka to Kavka and back: each goes on with the
transactions that the other has begun, and answers what the other would."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kavka.compat_tests.raw.case import Case, Facts, Ground, Script, Topic
from kavka.compat_tests.raw.compare import Side, differences
from kavka.compat_tests.raw.grounds import facts_of, prepare
from kavka.compat_tests.raw.playing import Played, played
from kavka.compat_tests.raw.transactions import Producer, offsets, producers, reading
from support import dump_log
from support.broker import Kavka
from support.oracle import ApacheKafka
from support.oracle39 import ApacheKafka39
from support.ports import HOST
from support.process import BrokerProcess

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
T = Topic("t", partitions=2)
VERSION = 4
"""Of EndTxn: that of the first protocol."""

KINDS = ("empty", "committed", "aborted", "open", "taken over")
OWN = ("partition.metadata",)
"""What stays a broker's own when it is given another's partition."""


def begin(on: Ground) -> Script:
    """A transactional id in each state."""
    by_kind = {kind: Producer(on, f"-{kind}", second=False) for kind in KINDS}
    for producer in by_kind.values():
        yield from producer.init()
    yield from by_kind["committed"].write(b"a")
    yield from by_kind["committed"].end()
    yield from by_kind["aborted"].write(b"b")
    yield from by_kind["aborted"].end(committed=False)
    for kind in ("open", "taken over"):
        yield from by_kind[kind].write(b"c", partition=(on.topic, 1))
        yield by_kind[kind].adding_offsets()
        yield by_kind[kind].committing(7, 8)
    yield from known(on)


def known(on: Ground) -> Script:
    """What a broker knows of all of them."""
    names = [Producer(on, f"-{kind}").transactional_id for kind in KINDS]
    yield Producer(on, second=False).describing(transactional_ids=names)
    yield reading(on, (on.topic, 0), (on.topic, 1))
    yield producers(on, (on.topic, 0), (on.topic, 1))
    yield offsets(on)
    yield offsets(on, stable=True)


def go_on(on: Ground) -> Script:
    """One commits what it had begun with the other broker, all begin once more."""
    described = yield Producer(on, "-open", second=False).describing(compared=False)
    (state,) = described["transaction_states"]
    yield from known(on)
    producer = Producer(on, "-open", second=False)
    producer.id, producer.epoch = state["producer_id"], state["producer_epoch"]
    yield producer.producing(b"d", partition=(on.topic, 1), sequence=1)
    yield from producer.end()
    yield from known(on)
    for kind in KINDS:
        heir = Producer(on, f"-{kind}", second=False)
        yield from heir.init()
        yield from heir.write(b"e")
        yield from heir.end()
    yield from known(on)


def case(script: Any) -> Case:
    return Case("EndTxn", "story", script, VERSION, VERSION, [T], transactional=True)


class Host:
    """A broker, and what is known of it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker.start()
        self.facts: Facts = facts_of(HOST, broker.port, "")
        self.facts = prepare(self.facts, [(case(begin), VERSION)])

    def play(self, script: Any) -> list[Played]:
        return played(Ground(case(script), VERSION, self.facts))

    def start(self) -> None:
        """Once more."""
        self.broker.start()
        self.facts = replace(self.facts, port=self.broker.port)
        prepare(self.facts, [(case(begin), VERSION)])

    def logs(self) -> list[Path]:
        """The directories of all partitions."""
        found = self.broker.data_dir.glob("*-[0-9]")
        return [path for path in found if path.name != dump_log.KRAFT_LOG]

    def take(self, other: Host) -> None:
        """Both are stopped: have the other's partitions as they are."""
        for source in other.logs():
            target = self.broker.data_dir / source.name
            for path in target.iterdir():
                if path.name not in OWN:
                    path.unlink()
            for path in source.iterdir():
                if path.name not in OWN:
                    shutil.copy(path, target / path.name)


def differing_answers(ours: Host, theirs: Host, script: Any) -> list[str]:
    """In what the brokers' answers to a script differ."""
    found = []
    for number, (left, right) in enumerate(
        zip(ours.play(script), theirs.play(script), strict=True), 1
    ):
        sides = (
            Side(without_epochs(left.answer), ours.facts),
            Side(without_epochs(right.answer), theirs.facts),
        )
        found += [f"step {number}, {difference}" for difference in differences(right.api, *sides)]
    return found


def without_epochs(answer: Any) -> Any:
    """The same but for the epochs of coordinators, which each broker raises in its own way."""
    if isinstance(answer, list):
        return [without_epochs(element) for element in answer]
    if not isinstance(answer, dict):
        return answer
    kept = {name: without_epochs(value) for name, value in answer.items()}
    if kept.get("coordinator_epoch", -1) >= 0:
        kept["coordinator_epoch"] = "<an epoch>"
    if "control" in kept:
        kept["control"] = [key for key, _ in kept["control"]]
    return kept


@pytest.fixture(params=[ApacheKafka39, ApacheKafka], ids=["3.9", "4"])
def apache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    broker: BrokerProcess = request.param(tmp_path / "apache", SETTINGS)
    yield broker
    broker.close()


@pytest.fixture
def kavka(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = Kavka(tmp_path / "kavka", {"broker.id": "1", **SETTINGS})
    yield broker
    broker.close()


@pytest.mark.parametrize("to_kavka", [True, False], ids=["to Kavka", "from Kavka"])
def test_each_broker_continues_the_other_s_transactions(
    apache: BrokerProcess, kavka: BrokerProcess, to_kavka: bool
) -> None:
    ours, theirs = Host(kavka), Host(apache)
    first, second = (theirs, ours) if to_kavka else (ours, theirs)
    first.play(begin)
    for host in (first, second):
        host.broker.stop()
    second.take(first)
    for host in (first, second):
        host.start()
    assert not differing_answers(ours, theirs, go_on)
    for host in (first, second):
        host.broker.stop()
    dump_log.assert_sound(second.broker.data_dir)

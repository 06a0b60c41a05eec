"""What is kept of groups is Apache Kafka's to the byte: its own tools read `__consumer_offsets` of
Kavka, and answer the same requests as from its own."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping

import pytest

from kavka.compat_tests.raw.case import Case, Facts, Ground, Script, Topic
from kavka.compat_tests.raw.consumer_members import ConsumerMember
from kavka.compat_tests.raw.grounds import facts_of, prepare
from kavka.compat_tests.raw.members import (
    Member,
    assignment,
    committed,
    simple_commit,
    subscription,
)
from kavka.compat_tests.raw.playing import played
from support import java
from support.groups.traffic import OFFSETS_TOPIC
from support.ports import HOST
from support.process import BrokerProcess
from support.sides import sides_with
from support.transactions.readers import read_all

SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
T = Topic("t", partitions=2)
OFFSETS = "OffsetsMessageFormatter"
GROUPS = "GroupMetadataMessageFormatter"

PAYLOAD = re.compile(r"^\| offset: .*? (key: .*)$", re.MULTILINE)
KIND = re.compile(r'key: {"type":"(\d+)"')
DRAWN = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r'(?<=[tT]imestamp":)\d{13}'), "<now>"),
    (re.compile(r'(?<="metadataHash":)-?[1-9]\d*'), "<hash of topic ids>"),
)


def classic(on: Ground) -> Script:
    """A static member's life, and offsets of members and of others."""
    static = Member(on, instance="an-instance", metadata=subscription(on.topic))
    yield from static.join()
    yield static.syncing({static.id: assignment({on.topic: [0, 1]})})
    topic = committed(on, on.topic, 7, 8, metadata="ä note")
    topic["partitions"][0]["committed_leader_epoch"] = 3
    yield static.committing(on.topic, topics=[topic])
    again = Member(on, "2", instance="an-instance", metadata=subscription(on.topic))
    yield from again.join()
    yield again.leaving()
    yield simple_commit(on, on.topic, 5, 2**40, group_id="simple")
    yield on.other(
        "OffsetDelete",
        0,
        group_id="simple",
        topics=[{"name": on.topic, "partitions": [{"partition_index": 0}]}],
    )
    yield on.other("DeleteGroups", 2, groups_names=[on.group])


def consumers(on: Ground) -> Script:
    """Members of the newer protocol come, change and go."""
    member = ConsumerMember(on, instance="an-instance", assignor="range")
    yield from member.join(rack_id="a-rack")
    yield from member.own()
    second = ConsumerMember(on, "2", topics=[on.topic, "no-such-topic"])
    yield from second.join()
    yield from member.heartbeat()
    yield from member.own()
    yield from second.heartbeat()
    yield from second.own()
    yield member.leaving(-2, instance_id="an-instance")
    yield second.leaving()
    yield on.other(
        "OffsetCommit",
        9,
        group_id=on.group,
        generation_id_or_member_epoch=second.epoch,
        member_id=second.id,
        topics=[committed(on, on.topic, 1)],
    )


CASES = [
    Case("JoinGroup", "classic", classic, 9, 9, [T]),
    Case("ConsumerGroupHeartbeat", "consumers", consumers, 1, 1, [T]),
]


class Side:
    """One broker on which the scripts were played."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.facts: Facts = facts_of(HOST, broker.port, "")
        self.facts = prepare(self.facts, [(case, case.since) for case in CASES])
        self.answers = [played(Ground(case, case.since, self.facts)) for case in CASES]
        self.consumed = {formatter: self.consume(formatter) for formatter in (OFFSETS, GROUPS)}
        broker.stop()
        self.dumped = self.dump()

    def consume(self, formatter: str) -> list[str]:
        """What the console consumer prints of the topic."""
        bootstrap = self.broker.bootstrap
        count = len(read_all(bootstrap, OFFSETS_TOPIC, 1, "read_uncommitted")[0])
        return self.alike(java.formatted(bootstrap, OFFSETS_TOPIC, formatter, count))

    def dump(self) -> list[str]:
        """Keys and payloads as DumpLogSegments decodes them."""
        log = self.broker.data_dir / f"{OFFSETS_TOPIC}-0" / f"{0:020}.log"
        done = java.run(java.DUMP_LOG, "--offsets-decoder", "--files", str(log))
        assert done.exit_code == 0 and not done.stderr, done.stderr
        return self.alike("\n".join(PAYLOAD.findall(done.text)))

    def alike(self, text: str) -> list[str]:
        """Lines without what is this broker's alone."""
        for topic_id, name in self.facts.names.items():
            text = text.replace(java_id(topic_id.bytes), f"<id of {name}>")
        for pattern, shown in DRAWN:
            text = pattern.sub(shown, text)
        return text.splitlines()


def java_id(data: bytes) -> str:
    """A UUID in the way of Java's tools."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with sides_with(tmp_path_factory.mktemp("offsets-topic"), SETTINGS, Side) as sides:
        yield sides


def test_dump_log_decodes_the_same_records(sides: tuple[Side, Side]) -> None:
    kavka, kafka = sides
    assert kavka.dumped == kafka.dumped
    kinds = {found[1] for line in kavka.dumped if (found := KIND.match(line))}
    assert kinds == {"1", "2", "3", "5", "6", "7", "8"}
    assert any(line.endswith("<DELETE>") for line in kavka.dumped)


@pytest.mark.parametrize("formatter", [OFFSETS, GROUPS])
def test_the_console_consumer_prints_the_same(sides: tuple[Side, Side], formatter: str) -> None:
    kavka, kafka = sides
    assert len(kafka.consumed[formatter]) > 3
    assert kavka.consumed[formatter] == kafka.consumed[formatter]

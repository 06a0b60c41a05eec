"""One set of log directories, served in turn by Apache Kafka 3.9 with ZooKeeper and by Kavka.

`kavka storage` carries what ZooKeeper knows; the records stay where they are, and each broker
reads what the other wrote, whether it had stopped in order or was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from support.clients import corpus
from support.clients.every import CONFLUENT
from support.clients.kafka_python import create_topic
from support.interchange import (
    COMMITTED_OFFSET,
    COMPACT,
    GROUP,
    INTERNAL,
    OPEN,
    PARTITIONS,
    SEGMENT_MS,
    TRANSACTIONS,
    Place,
    Stage,
    alter,
    assert_grown,
    assert_same,
    commit_offsets,
    committed_offsets,
    configure_brokers,
    delete_records,
    delete_topic,
    fill,
    look,
    transactional,
    wait_for_cleaning,
    wait_for_leaders,
    write_every_codec,
    write_keys,
    write_transactions,
)
from support.process import BrokerProcess


def of_both(offset: int) -> dict[Place, int]:
    """The offset in both partitions of a topic."""
    return {("codec.none", index): offset for index in range(PARTITIONS)}


OFFSETS = {
    GROUP: of_both(COMMITTED_OFFSET),
    "commits": {("codec.none", 0): 6},
    "both": {("codec.none", 0): 6},
}
"""After `fill`: the last turn that each producer committed."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    try:
        yield stage
    finally:
        stage.close()


def stop(broker: BrokerProcess) -> None:
    broker.stop()


def kill(broker: BrokerProcess) -> None:
    broker.kill()


@pytest.mark.parametrize("end", [stop, kill])
def test_from_apache_kafka_and_back(stage: Stage, end: Callable[[BrokerProcess], None]) -> None:
    apache, kavka = stage.apache.start(), stage.kavka
    fill(stage)
    written = look(apache)
    assert len(written.committed["transactional", 0]) < len(written.records["transactional", 0])
    offsets = committed_offsets(apache)
    assert offsets == OFFSETS
    end(apache)
    before = stage.segments()
    for suffix in (".log", ".index", ".timeindex"):
        assert stage.has_zeros_at_the_end(suffix) is (end is kill)

    stage.carry("import")
    kavka.start()
    assert_same(look(kavka), written)
    assert committed_offsets(kavka) == offsets
    kavka.stop()
    if end is stop:
        assert stage.segments() == before, "Kavka only read"
        dumped = stage.assert_sound()
        assert dumped.aborted > 0 and dumped.producers > 0

    kavka.start()
    more = write_every_codec(kavka)
    commit_offsets(kavka, "commits", 99)
    commit_offsets(kavka, "new", 5)
    offsets |= {"commits": of_both(99), "new": of_both(5)}
    both = look(kavka)
    assert_grown(both.records, written.records, {**more, "__consumer_offsets": 2 * PARTITIONS})
    before_open, after_open = (
        {
            place: records
            for place, records in contents.committed.items()
            if place[0] not in INTERNAL
        }
        for contents in (written, both)
    )  # the transaction that is open hides what comes after its offsets
    assert_grown(after_open, before_open, more)
    end(kavka)

    stage.carry("export", "--replace")
    apache.start()
    wait_for_leaders(apache, len(both.topics))
    assert_same(look(apache), both)
    assert committed_offsets(apache) == offsets
    transactional(apache, OPEN)  # aborts what the last one of this name had begun
    ended = look(apache)
    for index in range(PARTITIONS):
        place = ("transactional", index)
        assert any("b'open/" in str(record) for record in ended.records[place])
        assert not any("b'open/" in str(record) for record in ended.committed[place])
        assert len(ended.committed[place]) > len(both.committed[place])
    apache.stop()
    stage.assert_sound()


def test_from_kavka_and_back(stage: Stage) -> None:
    """A cluster that Kavka began; killed, so that Apache Kafka has to recover its files."""
    apache, kavka = stage.apache, stage.kavka.start()
    create_topic(kavka.bootstrap, "gone", corpus.PARTITIONS)
    CONFLUENT.write(kavka.bootstrap, "gone", corpus.make(CONFLUENT.shapes, 0, 10), "none")
    for codec in corpus.CODECS:
        configs = {"segment.ms": SEGMENT_MS, "retention.ms": "-1"}
        create_topic(kavka.bootstrap, f"codec.{codec}", PARTITIONS, configs)
    write_every_codec(kavka)
    delete_topic(kavka, "gone")
    delete_records(kavka, "codec.lz4", 0)
    create_topic(kavka.bootstrap, "compacted", 1, {"segment.ms": SEGMENT_MS, **COMPACT})
    write_keys(kavka)
    wait_for_cleaning(stage, kavka, "compacted")
    configure_brokers(kavka)
    commit_offsets(kavka)
    commit_offsets(kavka, "new", 5)
    alter(kavka, ConfigResource.Type.TOPIC, "codec.zstd", "kavka.durability", "fsync")
    written = look(kavka)
    assert len(written.brokers) == 2
    for codec in corpus.CODECS:
        # a client leaves a batch as it is that does not get smaller: one of few records
        assert codec in stage.codecs(f"codec.{codec}") <= {codec, "none"}
    offsets = [record[0] for record in written.records["compacted", 0]]
    assert offsets != list(range(len(offsets)))
    kavka.kill()
    kavka.start()
    kavka.stop()
    stage.assert_sound()
    kavka.start()
    kavka.kill()

    said = stage.carry("export")
    assert f"7 topics with {len(corpus.CODECS) * PARTITIONS + 1 + 3} partitions" in said
    assert "has been exported" in stage.storage("export").stderr, "it has moved"
    apache.start()
    wait_for_leaders(apache, len(written.topics))
    assert_same(look(apache), written)
    assert committed_offsets(apache) == {GROUP: of_both(COMMITTED_OFFSET), "new": of_both(5)}
    assert "using" in stage.storage("import").stderr

    more = write_every_codec(apache)
    create_topic(apache.bootstrap, "transactional", PARTITIONS, {"segment.ms": SEGMENT_MS})
    write_transactions(apache)
    commit_offsets(apache, offset=8)
    committed = committed_offsets(apache)
    both = look(apache)
    more["__consumer_offsets"] = PARTITIONS + TRANSACTIONS
    assert_grown(both.records, written.records, more)
    assert INTERNAL <= set(both.topics)
    apache.kill()

    stage.carry("import")
    kavka.start()
    found = look(kavka)
    assert_same(found, both)
    assert committed_offsets(kavka) == committed
    assert committed[GROUP] == of_both(8)
    assert found.ours == written.ours == {("codec.zstd", "kavka.durability"): "fsync"}
    kavka.stop()
    stage.assert_sound()

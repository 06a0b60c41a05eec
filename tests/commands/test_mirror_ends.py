"""How `kavka mirror --until-caught-up` begins and ends when brokers and topics come and go then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from commands import mirroring
from commands.test_mirror_changes import behind_looks, create, differences, run
from kavka.tools.admin.command import main
from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import unsent as unsent_module
from kavka.tools.mirror.clusters import Clusters, Groups
from kavka.tools.mirror.mirror import TOOL
from kavka.tools.mirror.reader import Reader
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.oracle39 import ApacheKafka39
from support.process import running
from support.spark import delete_records, delete_topic
from support.wait import eventually

RECORDS = 300


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kavka, Kavka]]:
    with mirroring.kavkas(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_broker_that_is_down_when_offsets_are_translated_is_waited_for(
    pair: tuple[Kavka, Kavka],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    side: int,
) -> None:
    topic, group, (source, target) = f"down{side}", f"g{side}", pair
    create(source, topic, *[10] * 10)
    mirroring.commit(source.bootstrap, group, {(topic, 0): 5})
    groups, left = Clusters.groups, [pair[side]]

    def after_a_kill(clusters: Clusters, takes: Callable[[str], bool]) -> Groups:
        if left:
            broker = left.pop()
            broker.kill()
            try:
                return groups(clusters, takes)
            finally:
                broker.launch()
        return groups(clusters, takes)

    monkeypatch.setattr(Clusters, "groups", after_a_kill)
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
    assert main(TOOL, [*way.split(), "--include", topic, "--name", topic]) == 0
    assert "waits: no broker answers" in capsys.readouterr().err
    assert mirroring.committed(target.bootstrap, group, [topic]) == {(topic, 0): (5, "note")}


def answers(clusters: Clusters) -> bool:
    with suppress(Failed):
        return bool(clusters.ids())
    return False


def test_a_source_that_has_just_started_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apache Kafka with ZooKeeper may answer as if it had no topics."""
    source = ApacheKafka39(tmp_path / "source", mirroring.SETTINGS)
    target = Kavka(tmp_path / "target", mirroring.SETTINGS)
    both = source, target
    with running(both):
        create_topic(source.bootstrap, "t", mirroring.PARTITIONS)
        mirroring.fill(source.bootstrap, ["t", "t"], RECORDS)
        source.stop()
        source.launch()
        here, there = ({"bootstrap.servers": broker.bootstrap} for broker in both)
        clusters = Clusters(here, there, None)
        eventually(lambda: answers(clusters), within_s=60, what="the source answers")
        assert run(both, "t") == 0, capsys.readouterr().err
        copied, copies = (mirroring.read(broker.bootstrap, ["t"]) for broker in both)
    assert any(copied.values()) and not [*mirroring.differences(copied, copies)]


def test_another_topic_may_take_the_place_of_one_whose_records_were_all_deleted(
    pair: tuple[Kavka, Kavka],
) -> None:
    """Nothing of it was copied, but the ledger says up to where it was read."""
    source, _ = pair
    for sizes in ([10] * 30, [20] * 20):
        create(source, "empty", *sizes)
        delete_records(source.bootstrap, "empty", {0: len(sizes)})
        assert run(pair, "empty") == 0
        delete_topic(source.bootstrap, "empty")
    create(source, "empty", *[10] * 10)
    assert run(pair, "empty") == 0
    assert not differences(pair, "empty", 10)


def test_a_topic_that_the_source_lacks_in_the_last_answer_is_looked_at_again(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that it has was aborted, so that it is asked for before its position is written."""
    source, _ = pair
    create_topic(source.bootstrap, "lacking", mirroring.PARTITIONS)
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "aborts"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("lacking", b"aborted", partition=0)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    source_ids = Clusters.source_ids
    lacks: list[dict[str, str]] = [{}]

    def ids(clusters: Clusters, names: Iterable[str]) -> dict[str, str]:
        return lacks.pop() if lacks else source_ids(clusters, names)

    monkeypatch.setattr(Clusters, "source_ids", ids)
    assert run(pair, "lacking") == 0
    assert not lacks


def test_what_was_read_with_a_record_that_can_t_be_copied_is_of_the_topics_looked_at(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another topic in the place of one was read with it: it is not taken for that one."""
    source, _ = pair
    for topic in ("with-bad", "with-other"):
        create(source, topic, *[10] * 10)
    sized, read, new = unsent_module.sized, Reader.read, [True]

    def refused(message: Message) -> Any:
        if message.topic() == "with-bad":
            raise Failed("with-bad-0 has a header that is not UTF-8")
        return sized(message)

    def both(reader: Reader, wait_s: float = 0.1) -> list[Message]:
        """Something of each, the bad one last."""
        if ("with-bad", 0) not in reader.positions:
            return read(reader, wait_s)  # the ledger
        if new:
            new.pop()
            delete_topic(source.bootstrap, "with-other")
            create(source, "with-other", *[20] * 10)
        found: list[Message] = []
        while len({message.topic() for message in found}) < 2:
            found += read(reader, wait_s)
        return sorted(found, key=lambda message: str(message.topic()), reverse=True)

    with monkeypatch.context() as patch:
        patch.setattr(unsent_module, "sized", refused)
        patch.setattr(Reader, "read", both)
        assert run(pair, "with-.*") == 1
        assert "a header that is not UTF-8" in capsys.readouterr().err
    assert run(pair, "with-.*") == 0, capsys.readouterr().err
    assert not differences(pair, "with-other", 10)
    assert not differences(pair, "with-bad", 10)


def test_what_is_deleted_before_anything_of_a_partition_is_copied_is_named(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Just behind the first look."""
    source, target = pair
    create(source, "early-deleted", *[10] * 10)
    behind_looks(monkeypatch, lambda: delete_records(source.bootstrap, "early-deleted", {0: 5}))
    assert run(pair, "early-deleted") == 0
    said = capsys.readouterr().err
    assert "early-deleted-0: offsets 0 to 4 were deleted in the source before they were" in said
    assert "has records in the target already" not in said
    copies = mirroring.read(target.bootstrap, ["early-deleted"])
    assert sum(map(len, copies.values())) == 5

"""`kavka mirror` while topics come and go, configs change, and with settings of all kinds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from commands import mirroring
from commands.test_mirror import set_config
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import main
from kavka.tools.admin.partition_offsets import offsets_at
from kavka.tools.mirror import look as look_module
from kavka.tools.mirror import mirroring as mirroring_module
from kavka.tools.mirror import session as session_module
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.mirror import TOOL
from kavka.tools.mirror.topic_plan import Choice
from kavka.tools.mirror.unsent import Unsent
from kavka.tools.mirror.writer import Writer
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.oracle39 import ApacheKafka39
from support.process import BrokerProcess, running
from support.spark import delete_topic

RECORDS = 300
MANY = 30_000
LONGEST_MS = 30_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kavka, Kavka]]:
    settings = {**mirroring.SETTINGS, "transaction.max.timeout.ms": str(2 * LONGEST_MS)}
    with mirroring.kavkas(tmp_path_factory.mktemp("pair"), settings) as pair:
        yield pair


def run(pair: tuple[BrokerProcess, BrokerProcess], topics: str, *options: str) -> int:
    """Copy what there is; each test has topics, and so a mirror, of its own."""
    source, target = pair
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
    words = [*way.split(), "--include", topics, "--name", topics.rstrip(".*"), "--no-groups"]
    return main(TOOL, [*words, *options])


def differences(pair: tuple[Kavka, Kavka], topic: str, count: int) -> list[str]:
    """Between both; the source is to have so many."""
    here, there = (mirroring.read(broker.bootstrap, [topic]) for broker in pair)
    assert sum(map(len, here.values())) == count
    return [*mirroring.differences(here, there)]


def behind_looks(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
    """Take one step after each look, as long as there are some."""
    look, left = Clusters.look, iter(steps)

    def looked(clusters: Clusters, choice: Choice) -> Look:
        found = look(clusters, choice)
        next(left, lambda: None)()
        return found

    monkeypatch.setattr(Clusters, "look", looked)


def create(broker: Kavka, topic: str, *sizes: int) -> None:
    """A topic with a batch for each."""
    create_topic(broker.bootstrap, topic, mirroring.PARTITIONS)
    write_large(broker, topic, *sizes)


def write_large(broker: Kavka, topic: str, *sizes: int) -> None:
    """A batch for each."""
    settings = {"message.max.bytes": 20_000_000, "compression.type": "none"}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for size in sizes:
        producer.produce(topic, random.Random(size).randbytes(size), partition=0)
        assert producer.flush(60) == 0


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_many_small_headers_count(pair: tuple[Kavka, Kavka], tmp_path: Path, codec: str) -> None:
    """As much as what they hold."""
    topic = f"headers-{codec}"
    limit = {"max.message.bytes": "10000"}
    create_topic(pair[0].bootstrap, topic, mirroring.PARTITIONS, limit)
    producer = Producer({"bootstrap.servers": pair[0].bootstrap, "batch.size": 5_000})
    chance = random.Random(1)
    for _ in range(100):
        headers = [(chance.choice("abcdefg"), chance.randbytes(1)) for _ in range(300)]
        producer.produce(topic, b"v", partition=0, headers=headers)
    assert producer.flush(60) == 0
    config = tmp_path / "target.properties"
    config.write_text(f"compression.type={codec}\n")
    assert run(pair, topic, "--target-config", str(config)) == 0
    assert not differences(pair, topic, 100)


@pytest.mark.parametrize("moment", ["configs are asked for", "offsets are asked for"])
def test_a_topic_that_goes_during_the_first_look_is_left_out(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Just before this moment."""
    source = pair[0]
    prefix = moment.partition(" ")[0]
    stays, goes = f"{prefix}-stays", f"{prefix}-goes"
    for topic in (stays, goes):
        create_topic(source.bootstrap, topic, mirroring.PARTITIONS)
    mirroring.fill(source.bootstrap, [stays, stays], RECORDS)
    left = [goes]
    described = ClusterClient.topics

    async def topics(cluster: ClusterClient) -> Any:
        found = await described(cluster)
        if left and any(topic.name == left[0] for topic in found):
            delete_topic(source.bootstrap, left.pop())
        return found

    async def offsets(*given: Any) -> Any:
        if left:
            delete_topic(source.bootstrap, left.pop())
        return await offsets_at(*given)

    if moment.startswith("configs"):
        monkeypatch.setattr(ClusterClient, "topics", topics)
    else:
        monkeypatch.setattr(look_module, "offsets_at", offsets)
    assert run(pair, f"{prefix}-.*") == 0
    assert not left
    here, there = (mirroring.read(broker.bootstrap, [stays]) for broker in pair)
    assert any(here.values()) and not [*mirroring.differences(here, there)]


def test_a_broker_that_dies_during_the_first_look_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [Kavka(tmp_path / side, mirroring.SETTINGS) for side in ("source", "target")]
    make, left = Clusters.make_ledger, list(both)

    def make_ledger(*given: Any) -> None:
        make(*given)
        if left:
            broker = left.pop()
            broker.kill()
            broker.launch()

    monkeypatch.setattr(Clusters, "make_ledger", make_ledger)
    source, target = both
    with running(both):
        create_topic(source.bootstrap, "t", mirroring.PARTITIONS)
        mirroring.fill(source.bootstrap, ["t", "t"], RECORDS)
        assert run((source, target), "t") == 0
        assert "waits: " in capsys.readouterr().err
        here, there = (mirroring.read(broker.bootstrap, ["t"]) for broker in both)
    assert any(here.values()) and not [*mirroring.differences(here, there)]


def test_a_topic_that_is_created_again_while_it_is_read_is_named(
    pair: tuple[Kavka, Kavka],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also if the new one has as many records as there were to be copied."""
    source, _ = pair

    def create_again() -> None:
        delete_topic(source.bootstrap, "again")
        create(source, "again", *[10] * 30)

    create(source, "again", *[10] * 10)
    assert run(pair, "again") == 0
    write_large(source, "again", *[10] * 10)
    behind_looks(monkeypatch, create_again)
    capsys.readouterr()
    assert run(pair, "again") == 1
    said = capsys.readouterr().err
    assert "the source's topic again was deleted and created again since it was copied" in said


def without(look: Look, topic: str) -> Look:
    """As if the source had not named it."""

    def rest(table: Mapping[Any, Any]) -> dict[Any, Any]:
        return {at: value for at, value in table.items() if topic not in (at, at[0])}

    return look._replace(
        source=rest(look.source),
        target=rest(look.target),
        starts=rest(look.starts),
        ends=rest(look.ends),
        target_starts=rest(look.target_starts),
    )


def test_a_topic_that_a_look_lacks_is_copied_to_its_end(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it is copied, and at the end, when the offsets of groups are translated once more."""
    source, target = pair
    topics = ["lacks-it", "lacks-other"]
    for topic in topics:
        create_topic(source.bootstrap, topic, mirroring.PARTITIONS)
    mirroring.fill(source.bootstrap, [topics[0]] * 2, MANY)
    mirroring.fill(source.bootstrap, [topics[1]] * 2, RECORDS)
    look, count = Clusters.look, itertools.count(1)

    def looked(clusters: Clusters, choice: Choice) -> Look:
        found = look(clusters, choice)
        return without(found, topics[0]) if next(count) in (2, 4) else found

    monkeypatch.setattr(Clusters, "look", looked)
    assert run(pair, "lacks-.*", "--refresh-ms", "50") == 0
    assert "deleted" not in capsys.readouterr().err
    here, there = (mirroring.read(broker.bootstrap, topics) for broker in pair)
    assert sum(map(len, here.values())) > MANY // 2
    assert not [*mirroring.differences(here, there)]
    assert next(count) > 5  # it has looked behind both


def test_a_source_that_names_no_topics_for_a_while_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Apache Kafka with ZooKeeper after a start."""
    source = ApacheKafka39(tmp_path / "source", mirroring.SETTINGS)
    target = Kavka(tmp_path / "target", mirroring.SETTINGS)

    def start_again() -> None:
        source.stop()
        source.launch()

    behind_looks(monkeypatch, start_again)
    monkeypatch.setattr(session_module, "LOOK_SHARE", 0)  # else it may look only before and behind
    with running([source, target]):
        create_topic(source.bootstrap, "t", mirroring.PARTITIONS)
        mirroring.fill(source.bootstrap, ["t", "t"], RECORDS)
        way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
        assert main(TOOL, [*way.split(), "--topic", "t", "--refresh-ms", "50"]) == 0
        assert "deleted" not in capsys.readouterr().err
        here, there = (mirroring.read(broker.bootstrap, ["t"]) for broker in (source, target))
    assert any(here.values()) and not [*mirroring.differences(here, there)]


def test_a_topic_that_was_deleted_does_not_count_as_copied_when_another_one_is_there(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new one comes behind the look that has missed the old one."""
    source, _ = pair
    for topic in ("other-stays", "other-goes"):
        create(source, topic, *[10] * 10)

    def create_again() -> None:
        create(source, "other-goes", 10)

    behind_looks(monkeypatch, lambda: delete_topic(source.bootstrap, "other-goes"), create_again)
    assert run(pair, "other-.*", "--refresh-ms", "50") == 1
    said = capsys.readouterr().err
    assert "topic other-goes: deleted in the source before all records were copied" in said
    assert not differences(pair, "other-stays", 10)


def test_what_is_read_first_of_a_topic_in_whose_place_another_one_is_is_not_copied(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next mirror copies the new one, without anything to be deleted."""
    source, _ = pair
    create(source, "early", *[10] * 10)

    def create_again() -> None:
        delete_topic(source.bootstrap, "early")
        create(source, "early", *[20] * 10)

    behind_looks(monkeypatch, create_again)
    assert run(pair, "early") == 1
    said = capsys.readouterr().err
    assert "early was deleted and created again in the source before anything of it" in said
    assert "topic early: deleted in the source before all records were copied" in said
    assert run(pair, "early") == 0
    assert not differences(pair, "early", 10)


def test_a_target_s_topic_that_goes_while_it_is_written_to_is_named(
    pair: tuple[Kavka, Kavka],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a wait until the time for its records is over."""
    source, target = pair
    create(source, "gone", 10)
    monkeypatch.setattr(session_module, "SILENCE_MS", 500)
    send, left = Writer.send, ["gone"]

    def sent(writer: Writer, unsent: Unsent) -> bool:
        if unsent and left:
            delete_topic(target.bootstrap, left.pop())
        return send(writer, unsent)

    monkeypatch.setattr(Writer, "send", sent)
    assert run(pair, "gone") == 1
    said = capsys.readouterr().err
    assert "the target's topic gone was deleted and created again since it was copied" in said
    assert "begins anew" not in said


def test_a_target_s_topic_that_goes_before_anything_is_copied_is_created_again(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Just behind the look that has found or created it."""
    source, target = pair
    create(source, "unused", *[10] * 10)
    behind_looks(monkeypatch, lambda: delete_topic(target.bootstrap, "unused"))
    assert run(pair, "unused") == 0
    assert "begins anew: the target's offsets are not known: " in capsys.readouterr().err
    assert not differences(pair, "unused", 10)


def test_limits_that_change_again_and_again_end_nothing(
    pair: tuple[Kavka, Kavka],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each time another record is too large, before the one before is committed."""
    source, target = pair
    create_topic(source.bootstrap, "twice", mirroring.PARTITIONS, {"max.message.bytes": "6000000"})
    write_large(source, "twice", 10, 2_500_000, 5_500_000)
    monkeypatch.setattr(mirroring_module, "RETRY_S", 0.05)
    behind_looks(
        monkeypatch,
        lambda: set_config(target, "twice", "max.message.bytes=1000000"),
        lambda: set_config(target, "twice", "max.message.bytes=3000000"),
    )
    assert run(pair, "twice") == 0
    assert capsys.readouterr().err.count("begins anew: the target refuses the record of twi") == 2
    assert not differences(pair, "twice", 3)


def test_a_transaction_timeout_that_the_target_refuses_ends_it(
    pair: tuple[Kavka, Kavka], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(pair[0].bootstrap, "timeout", 1)
    config = tmp_path / "target.properties"
    config.write_text(f"transaction.timeout.ms={4 * LONGEST_MS}\n")
    assert run(pair, "timeout", "--target-config", str(config)) == 1
    said = capsys.readouterr().err
    assert "INVALID_TRANSACTION_TIMEOUT" in said and said.count("\n") == 1
    assert (
        "give the mirror a transaction.timeout.ms (in --target-config) that is not larger" in said
    )


def test_a_producer_s_settings_do_not_get_in_the_way(
    pair: tuple[Kavka, Kavka], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Batches that a topic does not take, a time for records that is longer than a transaction's,
    and an id, which is the mirror's own."""
    source, _ = pair
    create(source, "settings", *[100_000] * 30)
    config = tmp_path / "target.properties"
    config.write_text("batch.size=2000000\ndelivery.timeout.ms=900000\ntransactional.id=its\n")
    assert run(pair, "settings", "--target-config", str(config)) == 0
    assert capsys.readouterr().err == ""
    assert not differences(pair, "settings", 30)

"""`kavka mirror` while topics come and go, configs change, and with settings of all kinds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
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
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.process import running
from support.spark import delete_topic

RECORDS = 300
LONGEST_MS = 30_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kavka, Kavka]]:
    home = tmp_path_factory.mktemp("pair")
    settings = {**mirroring.SETTINGS, "transaction.max.timeout.ms": str(2 * LONGEST_MS)}
    source, target = (Kavka(home / side, settings) for side in ("source", "target"))
    with running([source, target]):
        yield source, target


def run(pair: tuple[Kavka, Kavka], topics: str, *options: str) -> int:
    """Copy what there is; each test has topics, and so a mirror, of its own."""
    source, target = pair
    way = f"--source {source.bootstrap} --target {target.bootstrap} --until-caught-up"
    words = [*way.split(), "--include", topics, "--name", topics.rstrip(".*"), "--no-groups"]
    return main(TOOL, [*words, *options])


def differences(pair: tuple[Kavka, Kavka], topic: str, count: int) -> list[str]:
    """Between both; the source is to have so many."""
    here, there = (mirroring.read(one.bootstrap, [topic]) for one in pair)
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
    here, there = (mirroring.read(one.bootstrap, [stays]) for one in pair)
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
        here, there = (mirroring.read(one.bootstrap, ["t"]) for one in both)
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
        create_topic(source.bootstrap, "again", mirroring.PARTITIONS)
        write_large(source, "again", *[10] * 30)

    create_topic(source.bootstrap, "again", mirroring.PARTITIONS)
    write_large(source, "again", *[10] * 10)
    assert run(pair, "again") == 0
    write_large(source, "again", *[10] * 10)
    behind_looks(monkeypatch, create_again)
    capsys.readouterr()
    assert run(pair, "again") == 1
    said = capsys.readouterr().err
    assert "the source's topic again was deleted and created again since it was copied" in said


def test_a_target_s_topic_that_goes_while_it_is_written_to_is_named(
    pair: tuple[Kavka, Kavka],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a wait until the time for its records is over."""
    source, target = pair
    create_topic(source.bootstrap, "gone", mirroring.PARTITIONS)
    write_large(source, "gone", 10)
    monkeypatch.setattr(session_module, "SILENCE_MS", 500)
    behind_looks(monkeypatch, lambda: delete_topic(target.bootstrap, "gone"))
    assert run(pair, "gone") == 1
    said = capsys.readouterr().err
    assert "the target's topic gone was deleted and created again since it was copied" in said
    assert "begins anew" not in said


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
    create_topic(source.bootstrap, "settings", mirroring.PARTITIONS)
    write_large(source, "settings", *[100_000] * 30)
    config = tmp_path / "target.properties"
    config.write_text("batch.size=2000000\ndelivery.timeout.ms=900000\ntransactional.id=its\n")
    assert run(pair, "settings", "--target-config", str(config)) == 0
    assert capsys.readouterr().err == ""
    assert not differences(pair, "settings", 30)

"""`kavka mirror` to a target that is far away, or behind a slow link."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from commands import mirroring
from commands.mirroring import MirrorProcess, Watch
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.ports import HOST
from support.process import running
from support.threaded_proxy import KavkaBehindProxy, ThreadedProxy
from support.wait import eventually

PIECE_BYTES = 16_384
PIECES_MAX = 64
SLOW_BYTES = 8_000_000
"""More than a slow link carries before a transaction has timed out."""

RATE = 100_000.0
DELAY_S = 0.1
LIMIT = "3000"
SMALL_RECORDS = 3_000


class Link(ThreadedProxy):
    """One that is slow, or far away."""

    read_limit_bytes = PIECE_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.rate: float | None = None
        """How many bytes a second it carries to the broker."""

        self.delay_s = 0.0
        """In each direction."""

        self._free_s = 0.0
        """When it can carry the next bytes to the broker."""

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection(HOST, self.broker_port)
        await asyncio.gather(
            self._pass_on(reader, their_writer, is_limited=True),
            self._pass_on(their_reader, writer, is_limited=False),
        )

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_limited: bool
    ) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIECES_MAX)
        arriving = asyncio.create_task(self._arrive(pieces, writer))
        piece = b"-"
        while piece:
            try:
                piece = await reader.read(PIECE_BYTES)
            except ConnectionError:
                piece = b""
            if is_limited and self.rate is not None:
                self._free_s = max(self._free_s, time.monotonic()) + len(piece) / self.rate
                await asyncio.sleep(self._free_s - time.monotonic())
            await pieces.put((time.monotonic() + self.delay_s, piece))
        await arriving

    async def _arrive(
        self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        piece = b"-"
        while piece:
            when_s, piece = await pieces.get()
            await asyncio.sleep(when_s - time.monotonic())
            if piece and not writer.is_closing():
                writer.write(piece)
        writer.close()


@pytest.fixture
def link() -> Iterator[Link]:
    with Link() as found:
        yield found


@pytest.fixture
def pair(link: Link, tmp_path: Path) -> Iterator[tuple[Kavka, Kavka]]:
    source = Kavka(tmp_path / "source", mirroring.SETTINGS)
    target = KavkaBehindProxy(tmp_path / "target", link, mirroring.SETTINGS)
    with running([source, target]):
        assert link.broker_port != target.port == link.port
        yield source, target


@pytest.fixture
def mirror(pair: tuple[Kavka, Kavka], tmp_path: Path) -> Iterator[MirrorProcess]:
    process = MirrorProcess(*pair, tmp_path)
    try:
        yield process
    finally:
        process.close()


def write(source: Kavka, topic: str, count: int, size: int, partitions: int) -> None:
    """Records that can't be compressed, in small batches."""
    producer = Producer({"bootstrap.servers": source.bootstrap, "batch.size": 2_000})
    chance = random.Random(1)
    for number in range(count):
        while len(producer) > 10_000:
            producer.poll(0.1)
        producer.produce(topic, chance.randbytes(size), partition=number % partitions)
    assert producer.flush(60) == 0


def end(mirror: MirrorProcess, pair: tuple[Kavka, Kavka], topics: list[str], count: int) -> None:
    """Have the rest copied; the target must have all."""
    assert mirror.end() == 128 + signal.SIGINT, mirror.output()
    assert mirror.start("--until-caught-up").end(None) == 0, mirror.output()
    here, there = (mirroring.read(broker.bootstrap, topics) for broker in pair)
    assert sum(map(len, here.values())) == count
    assert not [*mirroring.differences(here, there)]


def test_a_slow_link_has_something_committed_all_the_time(
    link: Link, pair: tuple[Kavka, Kavka], mirror: MirrorProcess
) -> None:
    """It carries much less than there is to copy before a transaction has timed out."""
    source, target = pair
    create_topic(source.bootstrap, "t0", mirroring.PARTITIONS)
    write(source, "t0", SLOW_BYTES // 10_000, 10_000, 1)
    mirror.start()
    link.rate = RATE

    def has_copied() -> bool:
        return '"records": 0' not in mirror.output().splitlines()[-1]

    eventually(has_copied, within_s=50, what="records are committed", detail=mirror.output)
    assert "begins anew" not in mirror.output()
    link.rate = None
    end(mirror, pair, ["t0"], SLOW_BYTES // 10_000)


def test_a_topic_of_small_batches_far_away_holds_up_no_other(
    link: Link, pair: tuple[Kavka, Kavka], mirror: MirrorProcess
) -> None:
    """Its partitions are put aside, and taken up again."""
    source, target = pair
    create_topic(source.bootstrap, "tsmall", mirroring.PARTITIONS, {"max.message.bytes": LIMIT})
    create_topic(source.bootstrap, "tother", mirroring.PARTITIONS)
    write(source, "tsmall", SMALL_RECORDS, 1_000, 2)
    write(source, "tother", SMALL_RECORDS, 1_000, 1)
    link.delay_s = DELAY_S
    mirror.start()
    Watch(target, ["tother"]).await_offsets(SMALL_RECORDS, mirror)
    link.delay_s = 0
    end(mirror, pair, ["tsmall", "tother"], 2 * SMALL_RECORDS)

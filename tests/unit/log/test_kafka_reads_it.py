"""Apache Kafka's own tool reads what is written, also after truncation and recovery."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kavka.log.fs import OsFs
from kavka.wire.steps import run_at_once
from support import dump_log, logs
from support.logs import Broker, Producer
from support.replication import KINDS, Leader, Op, fetch, headers_in, replicate


@pytest.fixture
def data(tmp_path: Path, kafka_libs: Path) -> Path:
    return tmp_path / "data"


def test_every_kind_of_file(data: Path) -> None:
    """Rolled, truncated, recovered after a kill with a torn tail, flushed and closed."""
    settings = logs.settings(segment_bytes=20_000, index_interval_bytes=500)
    broker = Broker(OsFs(), str(data), log_settings=settings)
    chance = random.Random(2)
    clock = logs.TIMESTAMP
    sequences = {1: 0, 2: 0}

    def write(count: int) -> None:
        nonlocal clock
        for number in range(count):
            clock += chance.randint(-20, 50)
            values = [chance.randbytes(chance.randint(0, 300)) for _ in range(chance.randint(1, 5))]
            writer = chance.choice([1, 2, None])
            producer = logs.NO_PRODUCER
            if writer is not None:
                producer = Producer(writer, 3, sequences[writer])
                sequences[writer] += len(values)
            times = [clock + chance.randint(0, 9) for _ in values]
            batch = logs.batch(values, timestamps=times, producer=producer, compression=number % 5)
            logs.append(broker.log(), batch, leader_epoch=broker.log().end_offset // 300)

    write(300)
    broker.kill()
    write(100)
    broker.restart()
    log = broker.log()
    write(50)
    cut = log.read(log.end_offset - 30, 1, upto=log.end_offset, at_least_one=True)
    assert cut is not None
    run_at_once(broker.logs.truncate_in_steps(log, cut.base_offset))
    logs.purge(broker.logs)
    sequences = {state.producer_id: state.last_sequence + 1 for state in log.producers}
    write(40)
    with max((data / "t-0").glob("*.log")).open("ab") as file:
        file.write(b"half a batch")
    broker.kill()
    write(5)
    records = broker.log().end_offset
    broker.logs.close()
    dumped = dump_log.assert_sound(data)
    assert dumped.records == records
    assert dumped.index_entries > 100
    assert dumped.producers > 10


def test_a_followers_files(data: Path) -> None:
    """Also of a batch that is larger than segments should be, and after a full truncation."""
    leader = Leader(logs.settings(segment_bytes=20_000))
    chance = random.Random(3)
    leader.do(
        Op(
            chance.choice(KINDS),
            producer=chance.randint(1, 3),
            size=chance.randint(0, 300),
            records=chance.randint(1, 20),
            commit=chance.random() < 0.5,
        )
        for _ in range(400)
    )
    settings = logs.settings(segment_bytes=5000, index_interval_bytes=500)
    broker = Broker(OsFs(), str(data), log_settings=settings)
    replicate(leader.log, broker.log(), chance, bytes_max=30_000)
    bases = [header.base_offset for header in headers_in(fetch(leader.log, 0, 1 << 30))]
    replicate(leader.log, broker.log("over"), chance, bytes_max=30_000)
    run_at_once(broker.logs.truncate_fully_and_start_at(broker.log("over"), bases[100]))
    replicate(leader.log, broker.log("over"), chance, bytes_max=30_000)
    ends = broker.log().end_offset, broker.log("over").end_offset
    assert ends == (leader.log.end_offset, leader.log.end_offset)
    logs.purge(broker.logs)
    broker.logs.close()
    dumped = dump_log.assert_sound(data)
    assert dumped.records == 2 * leader.log.end_offset - bases[100]
    assert dumped.index_entries > 100
    assert dumped.aborted > 10

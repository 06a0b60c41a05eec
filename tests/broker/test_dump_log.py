"""Apache Kafka's DumpLogSegments reads every file that the broker wrote, without complaint."""

from __future__ import annotations

import time
from contextlib import closing

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from support.broker import Kavka, StartBroker
from support.clients import corpus
from support.clients.every import CONFLUENT
from support.dump_log import Dumped, assert_sound, files
from support.process import BrokerProcess

SEGMENT_BYTES = 1_048_576
"""The least that Apache Kafka 4 takes; the uncompressed corpus needs several a partition."""
COPIES = 2
"""How often the corpus is written to the uncompressed topic."""


def test_dump_log_reads_every_file(start_broker: StartBroker) -> None:
    broker = start_broker()
    create_topics(broker)
    written = write_every_codec(broker)

    broker.kill()
    broker.start()
    if isinstance(broker, Kavka):  # Apache Kafka's open index files end in zeros
        check(broker, written)

    written += write_every_codec(broker)
    broker.stop()
    dumped = check(broker, written)
    assert dumped.producers > 0


def create_topics(broker: BrokerProcess) -> None:
    """A topic a codec, with small segments and dense indexes."""
    configs = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "2048"}
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics(
            [NewTopic(f"dump.{codec}", 2, 1, topic_configs=configs) for codec in corpus.CODECS]
        )


def write_every_codec(broker: BrokerProcess) -> int:
    """Write the corpus in each codec. Returns the number of records."""
    records = [
        record
        for record in corpus.make(CONFLUENT.shapes, time.time_ns() // 1_000_000)
        if record.partition in (0, 1)
    ]
    written = 0
    for codec in corpus.CODECS:
        for _ in range(COPIES if codec == "none" else 1):
            written += len(CONFLUENT.write(broker.bootstrap, f"dump.{codec}", records, codec))
    return written


def check(broker: BrokerProcess, written: int) -> Dumped:
    """All files are sound and hold what was written; one partition has several segments."""
    names = [path.name for path in files(broker.data_dir) if path.parent.name == "dump.none-0"]
    assert sum(name.endswith(".log") for name in names) > 1, names
    assert any(name.endswith(".snapshot") for name in names), names
    dumped = assert_sound(broker.data_dir)
    assert dumped.records == written
    assert dumped.index_entries > 0
    return dumped

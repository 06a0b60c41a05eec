"""Writes `tests/compressed/clients.json`: batches as the stock clients compress them.

PYTHONPATH=src:tests python -m compressed.capture

They were captured once, from a running Kavka that stores what it is sent; it needs Java, Go and
Node.js. Times are set to those of the other batches, and what a broker writes is taken back.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import aiokafka
import confluent_kafka
import kafka

from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, CODECS, build, field, patch
from support import codec_judge, golang, installed, node
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.codec_batches import RECORDS, in_form
from support.paths import CACHE
from support.ports import HOST
from support.process import running
from support.raw import RawConnection

FILE: Final = Path(__file__).parent / "clients.json"
COUNT: Final = len(RECORDS)
NAMES: Final = [name for name in CODECS if name != "none"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kavka = Kavka(Path(folder) / "kavka")
        with running([kavka]):
            found = [
                {
                    "client": client,
                    "codec": name,
                    "batch": base64.b64encode(batch).decode(),
                }
                for client, name, batch in captured(kavka, Path(folder))
            ]
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def captured(kavka: Kavka, folder: Path) -> Iterator[tuple[str, str, bytes]]:
    packer = folder / "packer"
    build_packer(packer)
    writers: dict[str, tuple[list[str], Callable[[str, str, str], object]]] = {
        "franz-go": (
            NAMES,
            lambda address, topic, name: run([str(packer), address, topic, name, str(COUNT)]),
        ),
        "librdkafka": (NAMES, by_librdkafka),
        "kafka-python": (NAMES, by_kafka_python),
        "aiokafka": (NAMES, lambda *where: asyncio.run(by_aiokafka(*where))),
        "KafkaJS": (["gzip"], by_kafkajs),
    }
    for client, (names, write) in writers.items():
        for name in names:
            topic = f"{client}-{name}"
            create_topic(kavka.bootstrap, topic, 1)
            write(kavka.bootstrap, topic, name)
            yield client, name, sent(kavka, topic)
    for name in NAMES:
        plain = build(
            [record._replace(key=b"%s %s" % (name.encode(), record.key)) for record in RECORDS]
        )
        stream = codec_judge.Stream(CODECS[name], bytes(plain[61:]))
        [packed] = codec_judge.written([stream])
        batch = in_form(plain, CODECS[name], dict.fromkeys([bytes(plain[61:])], packed).__getitem__)
        yield "the Java client", name, bytes(batch)


def sent(kavka: Kavka, topic: str) -> bytes:
    """The one batch of a topic, as it came."""
    with RawConnection(HOST, kavka.port) as connection:
        records = bytearray(connection.fetch(topic, 0, 0, version=12)["records"])
    assert field(records, "record_count") == COUNT, f"{topic}: not in one batch"
    assert len(records) == field(records, "batch_length") + 12
    span = field(records, "max_timestamp") - field(records, "base_timestamp")
    fields = {"base_timestamp": BASE_TIMESTAMP_MS, "max_timestamp": BASE_TIMESTAMP_MS + span}
    return bytes(patch(records, base_offset=0, leader_epoch=-1, **fields))


def values(client: str, name: str) -> Iterator[tuple[bytes, bytes]]:
    for number in range(COUNT):
        yield f"{client} {name} {number}".encode(), b"value %d, " % number * 4


def by_librdkafka(address: str, topic: str, name: str) -> None:
    settings = {"bootstrap.servers": address, "compression.type": name, "linger.ms": 1000}
    producer = confluent_kafka.Producer(settings)
    for key, value in values("librdkafka", name):
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def by_kafka_python(address: str, topic: str, name: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        compression_type=name,
        linger_ms=1000,
        enable_idempotence=False,
    )
    for key, value in values("kafka-python", name):
        producer.send(topic, value, key)
    producer.close()


async def by_aiokafka(address: str, topic: str, name: str) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, compression_type=name, linger_ms=1000
    )
    await producer.start()
    futures = [await producer.send(topic, value, key) for key, value in values("aiokafka", name)]
    await asyncio.gather(*futures)
    await producer.stop()


def by_kafkajs(address: str, topic: str, name: str) -> None:
    command = node.command_line(node.NODE / "kafkajs_packer.js", address, topic, str(COUNT))
    run(command, node.environment())


def build_packer(into: Path) -> None:
    environment = {**os.environ, "GOMODCACHE": str(CACHE / "go" / "modules")}
    command = [installed.program("go"), "build", "-o", str(into), "./packer"]
    subprocess.run(command, cwd=golang.GO, env=environment, check=True)


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, env=environment, check=True, timeout=60)


if __name__ == "__main__":
    main()

"""What a broker has stored, batch by batch, as kafka-python reads it."""

from __future__ import annotations

import random
from typing import Any

from kafka.record import MemoryRecords

from kavka.compat_tests.raw.codec.batches import Written, field, read
from support.memory_broker import MemoryBroker

NOISE = random.Random(3).randbytes(200_000)
SMALL = [Written(b"k%d" % n, b"v" * 50, (("h", None),), n) for n in range(20)]
LARGE = [
    Written(b"k%d" % n, NOISE[n : n + 500] + b"x" * 500, (("h", b"h"),), n) for n in range(300)
]
MANY = [Written(b"k%d" % n, b"v", (), n % 9) for n in range(5000)]
"""Records to write: a few, larger ones that do not shrink much, and many."""


async def stored(broker: MemoryBroker, topic: str = "t", partition: int = 0) -> list[bytes]:
    """The whole batches of a partition, one by one."""
    found: list[bytes] = []
    offset = 0
    while True:
        data = bytes((await broker.fetch(offset, topic, partition, max_bytes=1 << 24)).records)
        batches = MemoryRecords(data)
        position = 0
        while (batch := batches.next_batch()) is not None:
            assert batch.validate_crc()
            size = field(data[position:], "batch_length") + 12
            found.append(data[position : position + size])
            position += size
        if not position:
            return found
        last = found[-1]
        offset = field(last, "base_offset") + field(last, "last_offset_delta") + 1


def bare(batch: bytes | bytearray) -> list[Any]:
    """A batch's records without their offsets."""
    return [(record.timestamp, record.key, record.value, record.headers) for record in read(batch)]

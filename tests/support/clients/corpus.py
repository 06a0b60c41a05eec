"""The records that the clients write: every shape a record can have, in one reproducible order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]

COUNT = 10_000
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LARGE_BYTES = 40_000
"""More than the clients' usual batch of 16 KiB: such a record has a batch to itself."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `partition` and `timestamp_ms` are None where the client can't choose them."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Shapes:
    """What a client's own interface can express, apart from what Kafka can store."""

    null_pair: bool = True
    """A record with neither key nor value."""
    null_headers: bool = True
    """A header whose value is null."""
    text_only: bool = False
    """Lines of UTF-8 text: no line breaks and no other bytes in any field."""
    placed: bool = True
    """Partition and timestamp are the caller's choice."""


def make(shapes: Shapes, base_ms: int, count: int = COUNT) -> list[Record]:
    """The corpus for one client; timestamps lie at and a little after `base_ms`.

    Every record differs from all others by its value or its headers.
    """
    chance = random.Random(20_240_229)
    return [_record(chance, number, shapes, base_ms) for number in range(count)]


def by_partition(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Records in their order per partition, as a reader must find them."""
    found: dict[int, list[Record]] = {}
    for record in records:
        assert record.partition is not None
        found.setdefault(record.partition, []).append(record)
    return found


def _record(chance: random.Random, number: int, shapes: Shapes, base_ms: int) -> Record:
    key = _key(chance, number, shapes)
    value = _value(chance, number, shapes)
    if key is None and value is None and not shapes.null_pair:
        value = b""
    headers = _headers(chance, number, shapes)
    if not headers and not value:
        headers = (("number", b"%d" % number),)
    return Record(
        key,
        value,
        headers,
        chance.randrange(PARTITIONS) if shapes.placed else None,
        base_ms + number + chance.randrange(-50, 50) if shapes.placed else None,
    )


def _key(chance: random.Random, number: int, shapes: Shapes) -> bytes | None:
    match chance.randrange(8):
        case 0:
            return None
        case 1:
            return b""
        case 2 if not shapes.text_only:
            return chance.randbytes(chance.randrange(1, 40))
        case 3:
            return f"ключ-{number}".encode()
        case _:
            return b"key-%d" % (number % 500)


def _value(chance: random.Random, number: int, shapes: Shapes) -> bytes | None:
    match chance.randrange(12):
        case 0:
            return None
        case 1:
            return b""
        case 2 if not shapes.text_only:
            return b"%d\r\n" % number + chance.randbytes(chance.randrange(300))
        case 3:
            return f"{number} größer ≠ žluťoučký kůň 🐎".encode()
        case 4 if chance.randrange(100) == 0:
            return b"%d " % number + b"large " * (LARGE_BYTES // 6)
        case _:
            words = (b"alpha", b"beta", b"gamma", b"delta")
            return b" ".join([b"%d" % number, *chance.choices(words, k=chance.randrange(30))])


def _headers(chance: random.Random, number: int, shapes: Shapes) -> Headers:
    match chance.randrange(6):
        case 0:
            return (("trace", b"%d" % number), ("empty", b""))
        case 1:
            null = None if shapes.null_headers else b"null"
            return (("twice", b"1"), ("twice", b"%d" % number), ("nothing", null))
        case 2:
            return (("überschrift", "žluť".encode()), ("n", b"%d" % number))
        case 3 if not shapes.text_only:
            return (("bytes", b"%d" % number + chance.randbytes(8)),)
        case _:
            return ()

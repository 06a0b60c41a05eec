"""Record batches in segment files, read by nothing but their header's layout (KIP-98)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.clients.corpus import CODECS

HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH_PREFIX_BYTES = 12
CODEC_MASK = 0x07


class Batch(NamedTuple):
    """What the tests ask of a batch."""

    base_offset: int
    records: int
    codec: str


def batches(segment: Path) -> Iterator[Batch]:
    """The batches of one `.log` file."""
    content = segment.read_bytes()
    position = 0
    while position < len(content):
        fields = HEADER.unpack_from(content, position)
        yield Batch(fields[0], fields[12], CODECS[fields[5] & CODEC_MASK])
        position += LENGTH_PREFIX_BYTES + fields[1]


def codecs(data_dir: Path, topic: str) -> set[str]:
    """Which codecs a topic's batches are compressed with."""
    segments = data_dir.glob(f"{topic}-*/*.log")
    return {batch.codec for segment in segments for batch in batches(segment)}

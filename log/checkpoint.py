"""The format of Apache Kafka's checkpoint files: version, number of entries, one entry a line.

Encodes and decodes only; callers do the I/O and decide about fsync and missing files. An empty
file counts as one without entries, as Kafka may leave such files behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from kavka.log.errors import CorruptFileError

TopicPartition: TypeAlias = tuple[str, int]

VERSION: Final = 0

OFFSET_MAX: Final = (1 << 63) - 1
EPOCH_MAX: Final = (1 << 31) - 1


def offset_line(key: TopicPartition, offset: int) -> str:
    """One line of an offset checkpoint: topic, partition, offset."""
    return f"{key[0]} {key[1]} {offset}"


def decode_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    """The offsets by topic and partition; CorruptFileError names `path`."""
    return {
        (topic, _number(partition, path)): _number(offset, path)
        for topic, partition, offset in _decode(data, path, columns=3)
    }


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """The leader-epoch checkpoint: epoch, start offset."""
    return encode_lines([f"{epoch} {start}" for epoch, start in epochs])


def decode_epochs(data: bytes, path: str) -> list[tuple[int, int]]:
    """Epochs and their start offsets, in the order of the file; CorruptFileError."""
    found = []
    for words in _decode(data, path, columns=2):
        epoch, start = [_number(word, path) for word in words]
        if not 0 <= epoch <= EPOCH_MAX or start < 0:
            raise CorruptFileError(path, f"leader epoch {epoch} can't begin at offset {start}")
        found.append((epoch, start))
    return found


def encode_lines(lines: list[str]) -> bytes:
    """The content of a checkpoint file with these lines."""
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def _decode(data: bytes, path: str, *, columns: int) -> list[list[str]]:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFileError(path, "it is not text") from error
    if len(lines) < 2:
        if lines:
            _check_version(lines[0], path)
        return []
    _check_version(lines[0], path)
    count = _number(lines[1], path)
    entries = [line.split() for line in lines[2:]]
    for entry in entries:
        if len(entry) != columns:
            raise CorruptFileError(path, f"the line {' '.join(entry)!r} is malformed")
    if len(entries) != count:
        raise CorruptFileError(path, f"it announces {count} entries and has {len(entries)}")
    return entries


def _check_version(line: str, path: str) -> None:
    version = _number(line, path)
    if version != VERSION:
        raise CorruptFileError(path, f"its version is {version}, not {VERSION}")


def _number(text: str, path: str) -> int:
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit():
        raise CorruptFileError(path, f"{text[:40]!r} is not a number")
    number = int(text)
    if not -OFFSET_MAX <= number <= OFFSET_MAX:
        raise CorruptFileError(path, f"{text[:40]} is too high for an offset")
    return number

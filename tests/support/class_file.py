"""The texts in a compiled Java class, read without a JVM (the Java Virtual Machine Specification,
4.4)."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

MAGIC: Final = 0xCAFEBABE
UTF8: Final = 1
LONG_OR_DOUBLE: Final = (5, 6)
SIZES: Final[Mapping[int, int]] = {
    **dict.fromkeys((7, 8, 16, 19, 20), 2),
    15: 3,
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4),
    **dict.fromkeys(LONG_OR_DOUBLE, 8),
}
"""Bytes behind the tag of each kind of constant but texts."""

_head = struct.Struct(">IHHH")
_length = struct.Struct(">H")


def texts_of_class(libs: Path, name: str) -> frozenset[str]:
    """The texts in the constant pools of a class in a directory of jars, and of the classes that it
    encloses."""
    path = name.replace(".", "/")
    found: set[str] = set()
    for jar in sorted(libs.glob("*.jar")):
        with zipfile.ZipFile(jar) as packed:
            if f"{path}.class" not in packed.namelist():
                continue
            for entry in packed.namelist():
                if entry == f"{path}.class" or entry.startswith(f"{path}$"):
                    found.update(texts(packed.read(entry)))
            return frozenset(found)
    raise AssertionError(f"no jar in {libs} has {name}")


def texts(data: bytes) -> Iterator[str]:
    """The texts in the constant pool of one class."""
    magic, _, _, count = _head.unpack_from(data)
    assert magic == MAGIC
    position, index = _head.size, 1
    while index < count:
        tag = data[position]
        position += 1
        if tag == UTF8:
            (size,) = _length.unpack_from(data, position)
            position += _length.size
            yield data[position : position + size].decode("utf-8", errors="replace")
            position += size
        else:
            position += SIZES[tag]
        index += 2 if tag in LONG_OR_DOUBLE else 1

"""What stands where in a message, by kafka-python's builder."""

from __future__ import annotations

import zlib

import pytest

from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, build, build_legacy
from kavka.wire import message_set


@pytest.mark.parametrize("magic", [0, 1])
def test_the_fields_of_a_message(magic: int) -> None:
    whole = build_legacy(magic)
    fields = message_set.HEADS[magic].unpack_from(whole)
    time = (BASE_TIMESTAMP_MS,) if magic else ()
    crc = zlib.crc32(whole[message_set.CRC_START :])
    assert fields == (0, len(whole) - 12, crc, magic, 0, *time, len(b"key"))
    assert message_set.HEAD.unpack_from(whole) == fields[:5]
    assert (
        message_set.BODY_HEADS[magic].pack(*fields[3:]) == whole[16 : message_set.HEADS[magic].size]
    )


def test_what_is_a_batch() -> None:
    batch = build()
    assert message_set.is_batch(batch)
    assert message_set.is_batch(batch + b"more")
    for other in (b"", batch[:16], batch[:17], batch[:-1], build_legacy(0), build_legacy(1)):
        assert not message_set.is_batch(other)

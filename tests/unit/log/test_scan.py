"""Walking files from batch to batch, through what is whole and what is not."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.log import scan
from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.fs import File
from kavka.log.memfs import Fault, MemFs
from kavka.wire.record_batches import set_offset_and_epoch
from support import logs

SIZES = st.lists(st.integers(0, 9000), max_size=6)


def file_of(data: bytes) -> File:
    file = MemFs().create("/f")
    file.pwrite(data, 0)
    return file


def batches(sizes: list[int]) -> list[bytes]:
    """Batches of two records, with offsets as in a log."""
    all_batches = []
    for number, size in enumerate(sizes):
        data = logs.batch([bytes([number % 250]) * size, b"second"])
        set_offset_and_epoch(data, number * 2, 0)
        all_batches.append(bytes(data))
    return all_batches


@given(SIZES)
def test_everything_is_found(sizes: list[int]) -> None:
    all_batches = batches(sizes)
    data = b"".join(all_batches)
    file = file_of(data)
    expected = []
    position = 0
    for number, batch in enumerate(all_batches):
        expected.append((position, len(batch), number * 2, number * 2 + 1))
        position += len(batch)
    assert [tuple(extent) for extent in scan.extents(file, "f", 0, len(data))] == expected
    for scanned in (
        scan.headers(file, "f", 0, len(data)),
        scan.BatchScanner(buffer_bytes=2000).batches(file, "f", len(data)),
        scan.BatchScanner().batches(file, "f", len(data)),
    ):
        found = [
            (at, header.size, header.base_offset, header.last_offset) for at, header in scanned
        ]
        assert found == expected
    if expected:
        last = expected[-1]
        assert scan.extent_at(file, "f", last[0], len(data)) == last


@settings(max_examples=150)
@given(SIZES.filter(bool), st.data())
def test_a_truncation_anywhere_ends_the_scan_there(sizes: list[int], data: st.DataObject) -> None:
    all_batches = batches(sizes)
    whole = b"".join(all_batches)
    cut = data.draw(st.integers(0, len(whole)))
    file = file_of(whole[:cut])
    good = 0
    ends = []
    for batch in all_batches:
        good += len(batch)
        ends.append(good)
    expected = [end for end in ends if end <= cut]
    scanner = scan.BatchScanner(buffer_bytes=data.draw(st.sampled_from([64, 5000, 1 << 20])))
    found = [at + header.size for at, header in scanner.batches(file, "f", cut)]
    assert found == expected
    if cut not in (0, *ends):
        for walk in (scan.extents(file, "f", 0, cut), scan.headers(file, "f", 0, cut)):
            with pytest.raises(CorruptLogError, match="f has no batch at byte"):
                for _ in walk:
                    pass


@settings(max_examples=300)
@given(SIZES.filter(bool), st.data())
def test_a_flipped_bit_is_never_accepted(sizes: list[int], data: st.DataObject) -> None:
    """Base offset and leader epoch lie outside the CRC: a flip there shows by the offsets."""
    all_batches = batches(sizes)
    whole = bytearray(b"".join(all_batches))
    broken = data.draw(st.integers(0, len(all_batches) - 1))
    start = sum(map(len, all_batches[:broken]))
    at = data.draw(st.sampled_from([*range(8, 12), *range(16, len(all_batches[broken]))]))
    whole[start + at] ^= 1 << data.draw(st.integers(0, 7))
    scanner = scan.BatchScanner(buffer_bytes=data.draw(st.sampled_from([64, 5000, 1 << 20])))
    found = list(scanner.batches(file_of(bytes(whole)), "f", len(whole)))
    assert [header.base_offset for _, header in found] == [n * 2 for n in range(broken)]


@given(st.binary(max_size=200))
def test_random_bytes_hold_no_batch(data: bytes) -> None:
    assert list(scan.BatchScanner().batches(file_of(data), "f", len(data))) == []


def test_zeros_hold_no_batch() -> None:
    [batch] = batches([100])
    data = batch + bytes(5000)
    found = list(scan.BatchScanner().batches(file_of(data), "f", len(data)))
    assert [position for position, _ in found] == [0]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_good_message_of_an_old_format_is_no_damage(magic: int) -> None:
    # KIP-31: offset, size, CRC-32 of the rest; magic, attributes, (timestamp,) key and value
    rest = struct.pack(">bb", magic, 0) + (struct.pack(">q", 5) if magic else b"")
    rest += struct.pack(">i", -1) + struct.pack(">i", 60) + bytes(60)
    message = struct.pack(">qiI", 0, len(rest) + 4, zlib.crc32(rest)) + rest
    with pytest.raises(StorageError, match=f"message of format {magic} at byte 0"):
        list(scan.BatchScanner().batches(file_of(message), "f", len(message)))
    torn = message[:-1] + b"x"
    assert list(scan.BatchScanner().batches(file_of(torn), "f", len(torn))) == []


@pytest.mark.parametrize(
    ("size", "magic", "delta", "room", "why"),
    [
        (61, 2, 0, 61, None),
        (60, 2, 0, 100, "size"),
        (-5, 2, 0, 100, "size"),
        (62, 2, 0, 61, "size"),
        (61, 3, 0, 61, "magic"),
        (61, 2, -1, 61, "last offset"),
    ],
)
def test_what_may_be_a_batch(size: int, magic: int, delta: int, room: int, why: str | None) -> None:
    found = scan.header_error(size, magic, delta, room)
    assert (found is None) == (why is None)
    assert why is None or (found is not None and why in found)


@pytest.mark.parametrize("position", [-1, 1, 150, 10**9])
def test_no_batch_begins_there(position: int) -> None:
    [batch] = batches([100])
    with pytest.raises(CorruptLogError):
        scan.extent_at(file_of(batch), "f", position, len(batch))


def test_one_batch_is_checked_wherever_it_lies() -> None:
    all_batches = batches([10, 9000, 20])
    file = file_of(b"".join(all_batches))
    found = list(scan.extents(file, "/f", 0, file.size()))
    scanner = scan.BatchScanner(buffer_bytes=500)
    for extent in found:
        scanner.check(file, "/f", extent)
    file.pwrite(b"\xff", found[1].position + 5000)
    scanner.check(file, "/f", found[0])
    scanner.check(file, "/f", found[2])
    with pytest.raises(CorruptLogError, match="/f has no batch at byte") as raised:
        scanner.check(file, "/f", found[1])
    assert raised.value.position == found[1].position


def test_a_range_rewritten_after_a_failed_fsync_becomes_durable() -> None:
    fs = MemFs()
    file = fs.create("/f")
    fs.sync_dir("/")
    content = bytes(range(256)) * 10
    file.pwrite(content, 0)
    fs.faults = [Fault("sync")]
    with pytest.raises(OSError):
        file.sync()
    scan.BatchScanner(buffer_bytes=300).rewrite(file, 100, 2000)
    file.sync()
    assert fs.read_bytes("/f") == content
    fs.crash()
    assert fs.read_bytes("/f") == bytes(100) + content[100:2000]

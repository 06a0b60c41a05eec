"""The text files, against what Apache Kafka 3.9 writes and against what may be broken in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log import checkpoint
from kavka.log.errors import CorruptFileError

# As found in a log directory of Apache Kafka.
OFFSETS = b"0\n2\n__consumer_offsets 13 0\nwords 0 120\n"
EPOCHS = b"0\n2\n0 0\n3 117\n"

TOPICS = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=20)
NUMBERS = st.integers(0, 2**63 - 1)


def encode(offsets: dict[tuple[str, int], int]) -> bytes:
    lines = [checkpoint.offset_line(key, offset) for key, offset in offsets.items()]
    return checkpoint.encode_lines(lines)


def test_offsets_as_kafka_writes_them() -> None:
    offsets = {("__consumer_offsets", 13): 0, ("words", 0): 120}
    assert checkpoint.decode_offsets(OFFSETS, "f") == offsets
    assert encode(offsets) == OFFSETS


def test_epochs_as_kafka_writes_them() -> None:
    assert checkpoint.decode_epochs(EPOCHS, "f") == [(0, 0), (3, 117)]
    assert checkpoint.encode_epochs([(0, 0), (3, 117)]) == EPOCHS


@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 2**31 - 1)), NUMBERS))
def test_any_offsets_come_back(offsets: dict[tuple[str, int], int]) -> None:
    assert checkpoint.decode_offsets(encode(offsets), "f") == offsets


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\n0\n"])
def test_files_without_entries(data: bytes) -> None:
    assert checkpoint.decode_offsets(data, "f") == {}


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"\0\0\0\0\0\0",
        b"\xff\xfe\n1\n",
        b"0\n2\nwords 0 120\n",
        b"0\n1\nwords 0 120\nwords 1 5\n",
        b"0\n1\nwords 120\n",
        b"0\n1\nwords zero 120\n",
        b"0\n1\nwords 0 12O\n",
        b"0\n1\nwords 0 --1\n",
        b"0\n1\nwords 0 9223372036854775808\n",
        b"0\n1\nwords 0 -9223372036854775809\n",
        b"0\nmany\n",
        b"0\n1\n\n",
    ],
)
def test_corrupt_files_are_reported_by_name(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="/logs/some-checkpoint is corrupt"):
        checkpoint.decode_offsets(data, "/logs/some-checkpoint")


@given(st.binary(max_size=60))
def test_random_bytes_are_corrupt_at_most(data: bytes) -> None:
    try:
        checkpoint.decode_epochs(data, "f")
    except CorruptFileError:
        pass

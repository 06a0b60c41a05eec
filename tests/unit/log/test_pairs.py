"""Keys and values in bulk: what a record reader of another project finds, and nothing where there
are no records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import batches
from kavka.log.pairs import BROKEN, add_pairs
from kavka.wire.building import NewRecord, build_batch
from kavka.wire.record_batches import HEADER_BYTES

SIZES = st.sampled_from([0, 1, 63, 64, 127, 128, 8191, 8192, 20_000])
BYTES = st.one_of(st.binary(max_size=20), SIZES.map(lambda size: b"x" * size))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        st.integers(0, 2**40),
        st.none() | BYTES,
        st.none() | BYTES,
        HEADERS,
    ),
    min_size=1,
    max_size=5,
)


@given(RECORDS)
def test_keys_and_values_are_those_that_kafka_python_finds(records: list[NewRecord]) -> None:
    batch = bytes(build_batch(records))
    keys: list[bytes] = []
    values: list[bytes | None] = []
    end, keyless = add_pairs(batch, HEADER_BYTES, len(records), keys, values)
    judged = [(record.key, record.value) for record in batches.read(batch)]
    assert list(zip(keys, values, strict=True)) == [
        (key, value) for key, value in judged if key is not None
    ]
    assert keyless == sum(key is None for key, _ in judged)
    assert end == len(batch)


@given(RECORDS, st.data())
def test_damage_is_noticed_or_harmless(records: list[NewRecord], data: st.DataObject) -> None:
    """With any bytes there: it ends, and reads nothing from behind its end."""
    batch = bytearray(build_batch(records))[HEADER_BYTES:]
    if batch:
        at = data.draw(st.integers(0, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    keys: list[bytes] = []
    values: list[bytes | None] = []
    try:
        end, _ = add_pairs(bytes(batch), 0, len(records), keys, values)
    except BROKEN:
        return
    assert end <= len(batch)
    assert sum(map(len, keys)) + sum(len(value or b"") for value in values) <= len(batch)


def test_a_record_that_goes_past_the_end_is_none() -> None:
    batch = bytes(build_batch([NewRecord(0, b"key", b"value")]))
    for cut in range(HEADER_BYTES, len(batch)):
        with pytest.raises(BROKEN):
            add_pairs(batch[:cut], HEADER_BYTES, 1, [], [])

"""The map of keys, against a dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log.compaction.offset_map import NO_OFFSET, SLOT_BYTES, OffsetMap

KEYS = st.binary(max_size=3)
NOTED = st.lists(st.tuples(KEYS, st.integers(0, 1 << 20)), max_size=45)


@given(NOTED, NOTED, st.integers(0, 1 << 60), st.sampled_from([100, 1500, 10_000]))
def test_it_is_a_dict_of_the_last_offsets(
    first: list[tuple[bytes, int]], later: list[tuple[bytes, int]], base: int, slots: int
) -> None:
    """With 100 slots it soon becomes a table, with 1,500 in the middle, with 10,000 it does not."""
    offsets = OffsetMap(slots * SLOT_BYTES, 0.95)
    model: dict[bytes, int] = {}
    for noted in (first, later):
        offsets.put([key for key, _ in noted], [delta for _, delta in noted], base)
        model |= {key: base + delta for key, delta in noted}
    assert offsets.entries == len(model)
    known = list(model)
    assert offsets.get(known) == [model[key] for key in known]
    strangers = [key + b"stranger" for key in known]
    assert offsets.get(strangers) == [NO_OFFSET] * len(known)


@pytest.mark.parametrize("slots", [2, 3, 10, 97, 1000])
def test_it_can_be_filled_to_its_last_but_one_slot(slots: int) -> None:
    offsets = OffsetMap(slots * SLOT_BYTES, 0.999)
    keys = [b"%d" % number for number in range(offsets.room)]
    assert len(keys) >= 1
    offsets.put(keys, range(len(keys)), 7)
    assert offsets.room == 0
    assert offsets.get(keys) == [7 + number for number in range(len(keys))]
    assert offsets.get([b"none"]) == [NO_OFFSET]


def test_the_empty_key_is_a_key() -> None:
    offsets = OffsetMap(1000, 0.9)
    assert offsets.get([b""]) == [NO_OFFSET]
    offsets.put([b"", b"a", b""], [0, 1, 2], 10)
    assert offsets.get([b"", b"a"]) == [12, 11]
    assert offsets.entries == 2


def test_its_memory_is_limited_by_the_buffer_size_and_the_number_of_keys() -> None:
    wide = OffsetMap(24_000_000, 0.9)
    assert 800_000 < wide.entries_max <= 900_000
    narrow = OffsetMap(24_000_000, 0.9, keys_expected=1000)
    assert 1000 <= narrow.entries_max < 1200
    assert OffsetMap(24_000_000, 0.9, keys_expected=10**9).entries_max == wide.entries_max


def test_utilization_is_the_used_fraction() -> None:
    offsets = OffsetMap(101 * SLOT_BYTES, 0.9)
    assert offsets.utilization == 0
    offsets.put([b"%d" % number for number in range(50)], range(50), 0)
    assert 0.45 < offsets.utilization < 0.55


@pytest.mark.parametrize("size", [0, 23, 24])
def test_it_must_have_room_for_a_key(size: int) -> None:
    with pytest.raises(ValueError, match="too few"):
        OffsetMap(size, 0.4)


@pytest.mark.parametrize("load_factor", [1.0, 7.0])
def test_a_slot_stays_empty_however_full_it_may_get(load_factor: float) -> None:
    offsets = OffsetMap(101 * SLOT_BYTES, load_factor)
    assert 90 < offsets.room < 101
    with pytest.raises(ValueError, match="no room"):
        OffsetMap(101 * SLOT_BYTES, 1 - load_factor, keys_expected=10)

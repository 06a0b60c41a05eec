"""The embedded protocol of consumers; the examples are encoded by hand from its schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.groupcoord.consumer import embedded_protocol
from kavka.wire.fields import Malformed

names = st.text("abc.", min_size=1, max_size=5)
partitions = st.dictionaries(names, st.lists(st.integers(0, 100), max_size=4), max_size=4)


@given(partitions, st.integers(0, 9))
def test_assignments(assigned: dict[str, list[int]], version: int) -> None:
    data = embedded_protocol.assignment(assigned, version)
    assert embedded_protocol.version_of(data) == min(version, embedded_protocol.VERSION_MAX)
    assert embedded_protocol.read_assignment(data) == (assigned, b"")


def test_an_encoded_assignment() -> None:
    assert embedded_protocol.assignment({"t": [0, 2]}, 1) == bytes.fromhex(
        "0001 00000001 0001 74 00000002 00000000 00000002 ffffffff"
    )


def test_subscriptions_of_all_versions() -> None:
    head = bytes.fromhex("00000002 0001 62 0001 61 00000002 7564")
    owned = bytes.fromhex("00000001 0001 61 00000002 00000000 00000003")
    generation, rack = bytes.fromhex("00000007"), bytes.fromhex("0002 7231")
    for version, data in enumerate(
        (head, head + owned, head + owned + generation, head + owned + generation + rack)
    ):
        found = embedded_protocol.read_subscription(version.to_bytes(2, "big") + data)
        assert found.topics == ["b", "a"]
        assert found.owned == ({"a": [0, 3]} if version else {})
        assert found.rack_id == ("r1" if version == 3 else None)


def test_further_fields_of_later_versions_are_ignored() -> None:
    data = bytes.fromhex("0004 00000000 ffffffff 00000000 ffffffff ffff 1234")
    assert embedded_protocol.read_subscription(data) == ([], {}, None)


def test_an_empty_assignment_and_user_data() -> None:
    assert embedded_protocol.read_assignment(b"") == ({}, b"")
    assert (
        embedded_protocol.read_assignment(bytes.fromhex("0000 00000000 00000001 78")).user_data
        == b"x"
    )


@pytest.mark.parametrize(
    "data", ["", "00", "ffff 00000000 ffffffff", "0000 7fffffff", "0000 00000001 00ff 61"]
)
def test_malformed_subscriptions(data: str) -> None:
    with pytest.raises(Malformed):
        embedded_protocol.read_subscription(bytes.fromhex(data))

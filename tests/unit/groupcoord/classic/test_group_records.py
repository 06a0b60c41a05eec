"""Records of classic groups, compared with Apache Kafka's and with its schemas."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec.batches import uvarint
from kavka.groupcoord.classic import group_records
from kavka.groupcoord.classic.group_records import NO_TIME, StoredGroup, StoredMember
from kavka.log.journal import JournalRecord
from kavka.wire.steps import run_at_once

ID = "i-3a9f5ff5-121d-4c7b-88ac-3d4278d25178"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\0\0\0\0"
MEMBER = StoredMember(ID, "i", "tester", "/127.0.0.1", 60_000, 30_000, SUBSCRIPTION, b"part")
SINCE_MS = (0x1A1FFCAAB8E, 0x1A1FFCAAB9D, 0x1A1FFCAABC2)

# What Apache Kafka 4.3.1 had in its log after one member had joined, synced and left.
NEW = b"\0\3\0\0\0\0\0\0\xff\xff\xff\xff\0\0\1\xa1\xff\xca\xab\x8e\0\0\0\0"
STABLE = (
    b"\0\3\0\x08consumer\0\0\0\1\0\5range\0&" + ID.encode() + b"\0\0\1\xa1\xff\xca\xab\x9d"
    b"\0\0\0\1\0&" + ID.encode() + b"\0\1i\0\6tester\0\n/127.0.0.1\0\0\xea`\0\0u0"
    b"\0\0\0\r\0\0\0\0\0\1\0\1t\0\0\0\0\0\0\0\4part"
)
LEFT = b"\0\3\0\x08consumer\0\0\0\2\xff\xff\xff\xff\0\0\1\xa1\xff\xca\xab\xc2\0\0\0\0"

VALUES = [
    (NEW, StoredGroup("", 0, None, None, SINCE_MS[0], [])),
    (STABLE, StoredGroup("consumer", 1, "range", ID, SINCE_MS[1], [MEMBER])),
    (LEFT, StoredGroup("consumer", 2, None, None, SINCE_MS[2], [])),
]


@pytest.mark.parametrize(("value", "group"), VALUES)
def test_values_equal_apache_kafkas(value: bytes, group: StoredGroup) -> None:
    assert run_at_once(group_records.encode(group)) == value
    assert run_at_once(group_records.decode(value)) == group


def expected_value(version: int, group: StoredGroup) -> bytes:
    """A value by the schema of a version, with an unknown tagged field where there may be one."""
    flexible = version >= 4
    tags = b"\1\x07\3new" if flexible else b""

    def length(number: int, plain: str) -> bytes:
        return uvarint(number + 1) if flexible else struct.pack(plain, number)

    def string(text: str | None) -> bytes:
        data = (text or "").encode()
        return length(-1 if text is None else len(data), ">h") + data

    out = struct.pack(">h", version) + string(group.protocol_type)
    out += struct.pack(">i", group.generation) + string(group.protocol) + string(group.leader)
    if version >= 2:
        out += struct.pack(">q", group.since_ms)
    out += length(len(group.members), ">i")
    for member in group.members:
        out += string(member.member_id)
        if version >= 3:
            out += string(member.instance_id)
        out += string(member.client_id) + string(member.client_host)
        if version >= 1:
            out += struct.pack(">i", member.rebalance_timeout_ms)
        out += struct.pack(">i", member.session_timeout_ms)
        for data in (member.subscription, member.assignment):
            out += length(len(data), ">i") + data
        out += tags
    return out + tags


def without_later_fields(version: int, group: StoredGroup) -> StoredGroup:
    """A group with the fields of a version."""
    members = [
        member._replace(
            instance_id=member.instance_id if version >= 3 else None,
            rebalance_timeout_ms=member.rebalance_timeout_ms if version else -1,
        )
        for member in group.members
    ]
    return group._replace(since_ms=group.since_ms if version >= 2 else NO_TIME, members=members)


TEXTS = st.text(max_size=200)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
MEMBERS = st.builds(
    StoredMember, TEXTS, st.none() | TEXTS, TEXTS, TEXTS, NUMBERS, NUMBERS,
    st.binary(max_size=300), st.binary(),
)  # fmt: skip
GROUPS = st.builds(
    StoredGroup, TEXTS, NUMBERS, st.none() | TEXTS, st.none() | TEXTS,
    st.integers(-(2**63), 2**63 - 1), st.lists(MEMBERS, max_size=4),
)  # fmt: skip


def decode(value: bytes) -> StoredGroup | None:
    return run_at_once(group_records.decode(value))


@given(group=GROUPS, version=st.integers(0, 4), share=st.floats(0, 1, exclude_max=True))
def test_all_versions_are_decoded_unless_truncated(
    group: StoredGroup, version: int, share: float
) -> None:
    value = expected_value(version, group)
    assert decode(value) == without_later_fields(version, group)
    assert decode(value[: int(len(value) * share)]) is None


@given(group=GROUPS)
def test_version_3_is_encoded(group: StoredGroup) -> None:
    assert run_at_once(group_records.encode(group)) == expected_value(3, group)


@given(version=st.integers(0, 5), value=st.binary(max_size=80))
def test_decoding_random_bytes_does_not_raise(version: int, value: bytes) -> None:
    found = decode(struct.pack(">h", version) + value)
    assert found is None or isinstance(found, StoredGroup)


def test_other_versions_are_not_decoded() -> None:
    group = VALUES[1][1]
    value = expected_value(4, group)
    assert decode(value) == group
    assert [decode(data) for data in (b"\0\5" + value[2:], b"\xff\xff" + STABLE[2:], b"")] == [
        None
    ] * 3


@given(group_id=TEXTS)
def test_keys(group_id: str) -> None:
    key = group_records.encode_key(group_id)
    assert key == struct.pack(">hh", 2, len(group_id.encode())) + group_id.encode()
    assert group_records.decode_key(key) == group_id
    assert group_records.tombstone(group_id) == JournalRecord(key, None)
    assert run_at_once(group_records.group_record(group_id, VALUES[0][1])) == JournalRecord(
        key, NEW
    )


@pytest.mark.parametrize(
    "key",
    [b"", b"\0\2", b"\0\2\0\3ab", b"\0\1\0\1a", b"\0\3\0\1a", b"\0\2\xff\xff", b"\0\2\0\1\xff"],
)
def test_keys_that_are_not_of_a_group(key: bytes) -> None:
    assert group_records.decode_key(key) is None


def test_a_string_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        run_at_once(group_records.encode(VALUES[1][1]._replace(leader="x" * 32_768)))

"""Records of classic groups, as Apache Kafka writes them and as its schemas say."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.groupcoord.classic import records
from kavka.groupcoord.classic.records import NO_TIME, StoredGroup, StoredMember
from kavka.log.journal import Record
from kavka.wire.steps import run_at_once
from support.batches import uvarint

ID = "i-3a9f5ff5-121d-4c7b-88ac-3d4278d25178"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\0\0\0\0"
MEMBER = StoredMember(ID, "i", "tester", "/127.0.0.1", 60_000, 30_000, SUBSCRIPTION, b"part")
SINCE_MS = (0x1A1FFCAAB8E, 0x1A1FFCAAB9D, 0x1A1FFCAABC2)

# What Apache Kafka 4.3.1 had in its log after one member had come, synced and left.
NEW = b"\0\3\0\0\0\0\0\0\xff\xff\xff\xff\0\0\1\xa1\xff\xca\xab\x8e\0\0\0\0"
STABLE = (
    b"\0\3\0\x08consumer\0\0\0\1\0\5range\0&" + ID.encode() + b"\0\0\1\xa1\xff\xca\xab\x9d"
    b"\0\0\0\1\0&" + ID.encode() + b"\0\1i\0\6tester\0\n/127.0.0.1\0\0\xea`\0\0u0"
    b"\0\0\0\r\0\0\0\0\0\1\0\1t\0\0\0\0\0\0\0\4part"
)
LEFT = b"\0\3\0\x08consumer\0\0\0\2\xff\xff\xff\xff\0\0\1\xa1\xff\xca\xab\xc2\0\0\0\0"

WRITTEN = [
    (NEW, StoredGroup("", 0, None, None, SINCE_MS[0], [])),
    (STABLE, StoredGroup("consumer", 1, "range", ID, SINCE_MS[1], [MEMBER])),
    (LEFT, StoredGroup("consumer", 2, None, None, SINCE_MS[2], [])),
]


@pytest.mark.parametrize(("value", "group"), WRITTEN)
def test_values_are_apache_kafkas(value: bytes, group: StoredGroup) -> None:
    assert run_at_once(records.encode(group)) == value
    assert run_at_once(records.decode(value)) == group


@dataclass
class Form:
    """How one version writes things."""

    flexible: bool

    def text(self, text: str | None) -> bytes:
        data = b"" if text is None else text.encode()
        if self.flexible:
            return uvarint(0 if text is None else len(data) + 1) + data
        return struct.pack(">h", -1 if text is None else len(data)) + data

    def data(self, data: bytes) -> bytes:
        return (uvarint(len(data) + 1) if self.flexible else struct.pack(">i", len(data))) + data

    def count(self, number: int) -> bytes:
        return uvarint(number + 1) if self.flexible else struct.pack(">i", number)

    def tags(self) -> bytes:
        """One that nobody knows."""
        return b"\1\x07\3new" if self.flexible else b""


def written(version: int, group: StoredGroup) -> bytes:
    """A value, by the schema of a version."""
    form = Form(version >= 4)
    out = struct.pack(">h", version) + form.text(group.protocol_type)
    out += struct.pack(">i", group.generation) + form.text(group.protocol)
    out += form.text(group.leader)
    if version >= 2:
        out += struct.pack(">q", group.since_ms)
    out += form.count(len(group.members))
    for one in group.members:
        out += form.text(one.member_id)
        if version >= 3:
            out += form.text(one.instance_id)
        out += form.text(one.client_id) + form.text(one.client_host)
        if version >= 1:
            out += struct.pack(">i", one.rebalance_timeout_ms)
        out += struct.pack(">i", one.session_timeout_ms)
        out += form.data(one.subscription) + form.data(one.assignment) + form.tags()
    return out + form.tags()


def as_told_by(version: int, group: StoredGroup) -> StoredGroup:
    """What is left of a group in a version."""
    members = [
        one._replace(
            instance_id=one.instance_id if version >= 3 else None,
            rebalance_timeout_ms=one.rebalance_timeout_ms if version else -1,
        )
        for one in group.members
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


@given(group=GROUPS, version=st.integers(0, 4))
def test_every_version_is_read(group: StoredGroup, version: int) -> None:
    assert run_at_once(records.decode(written(version, group))) == as_told_by(version, group)


@given(group=GROUPS)
def test_version_3_is_written(group: StoredGroup) -> None:
    assert run_at_once(records.encode(group)) == written(3, group)


@given(group=GROUPS, version=st.integers(0, 4), share=st.floats(0, 1, exclude_max=True))
def test_what_is_cut_off_is_not_read(group: StoredGroup, version: int, share: float) -> None:
    value = written(version, group)
    assert run_at_once(records.decode(value[: int(len(value) * share)])) is None


@given(version=st.integers(0, 5), value=st.binary(max_size=80))
def test_rubbish_is_no_failure(version: int, value: bytes) -> None:
    found = run_at_once(records.decode(struct.pack(">h", version) + value))
    assert found is None or isinstance(found, StoredGroup)


def test_a_version_to_come_is_not_read() -> None:
    assert run_at_once(records.decode(written(4, WRITTEN[1][1]))) == WRITTEN[1][1]
    assert run_at_once(records.decode(b"\0\5" + written(4, WRITTEN[1][1])[2:])) is None
    assert run_at_once(records.decode(b"\xff\xff" + STABLE[2:])) is None
    assert run_at_once(records.decode(b"")) is None


@given(group_id=TEXTS)
def test_keys(group_id: str) -> None:
    key = records.encode_key(group_id)
    assert key == struct.pack(">hh", 2, len(group_id.encode())) + group_id.encode()
    assert records.decode_key(key) == group_id
    assert records.tombstone(group_id) == Record(key, None)
    assert run_at_once(records.group_record(group_id, WRITTEN[0][1])) == Record(key, NEW)


@pytest.mark.parametrize(
    "key",
    [b"", b"\0\2", b"\0\2\0\3ab", b"\0\1\0\1a", b"\0\3\0\1a", b"\0\2\xff\xff", b"\0\2\0\1\xff"],
)
def test_other_keys(key: bytes) -> None:
    assert records.decode_key(key) is None


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        run_at_once(records.encode(WRITTEN[1][1]._replace(leader="x" * 32_768)))

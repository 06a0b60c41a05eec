"""Records of consumer groups: the judge is what Apache Kafka 4.3.1 wrote, byte by byte."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.groupcoord.consumer import consumer_group_records
from kavka.groupcoord.consumer.consumer_group_records import TOPICS_PER_STEP, Key, Resolved
from kavka.groupcoord.consumer.member import (
    ClassicProtocols,
    ConsumerGroupMember,
    MemberState,
    in_order,
)
from kavka.log.journal import JournalRecord
from kavka.wire.fields import Malformed
from kavka.wire.steps import run_at_once
from support.steps import run_and_look

ALPHA = UUID("182a9a66-e341-4b6f-a263-e4048219ef14")
BETA = UUID("c48176f9-e382-4da9-bf4a-dfa89540d9ab")
GROUP = "recorded"

# Recorded: member m1 (instance i1, rack r1, assignor range) subscribed to alpha with 3 partitions
# and beta with 1; then m2 joined with the regex al.*, and m1 had to revoke partition 2 of alpha.
FIRST = ConsumerGroupMember(
    "m1",
    2,
    0,
    instance_id="i1",
    rack_id="r1",
    rebalance_timeout_ms=60_000,
    client_id="tester",
    client_host="/127.0.0.1",
    topic_names=("alpha", "beta"),
    server_assignor="range",
    assigned={ALPHA: {0: 2, 1: 2, 2: 2}, BETA: {0: 2}},
)
REVOKING = ConsumerGroupMember(
    "m1",
    2,
    2,
    MemberState.UNREVOKED_PARTITIONS,
    assigned={ALPHA: {0: 2, 1: 2}, BETA: {0: 2}},
    revoking={ALPHA: {2: 2}},
)
SECOND = ConsumerGroupMember(
    "m2",
    rebalance_timeout_ms=30_000,
    client_id="tester",
    client_host="/127.0.0.1",
    topic_regex="al.*",
)
CLASSIC = ConsumerGroupMember(
    "m",
    rebalance_timeout_ms=60_000,
    client_id="tester",
    client_host="/127.0.0.1",
    topic_names=("a-topic",),
    classic=ClassicProtocols(
        60_000, (("range", bytes.fromhex("0000000000010007612d746f706963000000 00")),)
    ),
)

WRITTEN = {
    "group": (
        consumer_group_records.group(GROUP, 2, 0x0E99D88BAA55A2BF),
        "000300087265636f72646564",
        "0000000000020100080e99d88baa55a2bf",
    ),
    "group without a hash": (
        consumer_group_records.group(GROUP, 3, 0),
        "000300087265636f72646564",
        "00000000000300",
    ),
    "member": (
        run_at_once(consumer_group_records.member_in_steps(GROUP, FIRST)),
        "000500087265636f7264656400026d31",
        "0000036931037231077465737465720b2f3132372e302e302e310306616c7068610562657461010000ea60"
        "0672616e676501000100",
    ),
    "member with a regex": (
        run_at_once(consumer_group_records.member_in_steps(GROUP, SECOND)),
        "000500087265636f7264656400026d32",
        "00000000077465737465720b2f3132372e302e302e310105616c2e2a000075300001000100",
    ),
    "target": (
        consumer_group_records.target(GROUP, 2, 0x01A1FFD4E319),
        "000600087265636f72646564",
        "000000000002010008000001a1ffd4e319",
    ),
    "target without a time": (
        consumer_group_records.target(GROUP, 1, 0),
        "000600087265636f72646564",
        "00000000000100",
    ),
    "target of a member": (
        run_at_once(
            consumer_group_records.target_member_in_steps(
                GROUP, "m1", {ALPHA: (0, 1, 2), BETA: (0,)}
            )
        ),
        "000700087265636f7264656400026d31",
        "000003182a9a66e3414b6fa263e4048219ef1404000000000000000100000002"
        "00c48176f9e3824da9bf4adfa89540d9ab02000000000000",
    ),
    "current": (
        run_at_once(consumer_group_records.current_member_in_steps(GROUP, FIRST)),
        "000800087265636f7264656400026d31",
        "000000000002000000000003182a9a66e3414b6fa263e4048219ef1404000000000000000100000002"
        "01000d04000000020000000200000002c48176f9e3824da9bf4adfa89540d9ab0200000000010005020000"
        "00020100",
    ),
    "current, revoking": (
        run_at_once(consumer_group_records.current_member_in_steps(GROUP, REVOKING)),
        "000800087265636f7264656400026d31",
        "000000000002000000020103182a9a66e3414b6fa263e4048219ef14030000000000000001010009030000"
        "000200000002c48176f9e3824da9bf4adfa89540d9ab0200000000010005020000000202182a9a66e3414b"
        "6fa263e4048219ef140200000002010005020000000200",
    ),
    "regex": (
        consumer_group_records.regex(GROUP, "al.*", Resolved(("alpha",), 0x8C1, 0x01A1FFD4E7EE)),
        "001000087265636f726465640004616c2e2a",
        "00000206616c70686100000000000008c1000001a1ffd4e7ee00",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_records_are_those_of_apache_kafka(name: str) -> None:
    record, key, value = WRITTEN[name]
    assert (record.key.hex(), record.value and record.value.hex()) == (key, value)


def test_the_record_of_a_classic_member_is_that_of_apache_kafka() -> None:
    # recorded with the group id and member id of another script: the value alone
    recorded = (
        "00000000077465737465720b2f3132372e302e302e310208612d746f706963010000ea600001002201"
        "0000ea60020672616e6765140000000000010007612d746f706963000000000000"
    )
    value = run_at_once(consumer_group_records.member_in_steps(GROUP, CLASSIC)).value
    assert value is not None
    assert value.hex() == recorded
    assert consumer_group_records.read_member("m", bytes.fromhex(recorded)) == CLASSIC


def test_values_are_decoded() -> None:
    found = {name: bytes.fromhex(value) for name, (_, _, value) in WRITTEN.items()}
    assert consumer_group_records.read_group(found["group"]) == (2, 0x0E99D88BAA55A2BF)
    assert consumer_group_records.read_group(found["group without a hash"]) == (3, 0)
    assert consumer_group_records.read_member("m2", found["member with a regex"]) == SECOND
    assert consumer_group_records.read_target(found["target"]) == (2, 0x01A1FFD4E319)
    assert consumer_group_records.read_target(found["target without a time"]) == (1, 0)
    target = consumer_group_records.read_target_member(found["target of a member"])
    assert target == {ALPHA: (0, 1, 2), BETA: (0,)}
    current = consumer_group_records.read_current_member(found["current, revoking"])
    assert current == (2, 2, MemberState.UNREVOKED_PARTITIONS, REVOKING.assigned, {ALPHA: {2: 2}})
    resolved = consumer_group_records.read_regex(found["regex"])
    assert resolved == (("alpha",), 0x8C1, 0x01A1FFD4E7EE)


def test_keys_are_decoded() -> None:
    assert consumer_group_records.read_key(bytes.fromhex("000300087265636f72646564")) == Key(
        3, GROUP, ""
    )
    assert consumer_group_records.read_key(
        bytes.fromhex("000800087265636f7264656400026d31")
    ) == Key(8, GROUP, "m1")
    for kind in (0, 1, 2, 9, 15, 17):
        with pytest.raises(Malformed):
            consumer_group_records.read_key(kind.to_bytes(2, "big") + b"\0\1g\0\1m")


def test_partitions_without_epochs_from_before_4_3() -> None:
    """As 4.0 wrote it: epoch 5, partitions 1 and 0 of alpha, none to revoke."""
    value = bytes.fromhex("0000 00000005 00000004 00 02") + ALPHA.bytes
    value += bytes.fromhex("03 00000001 00000000 00 01 00")
    assert consumer_group_records.read_current_member(value).assigned == {ALPHA: {0: 5, 1: 5}}


def test_an_unknown_state() -> None:
    value = bytes.fromhex("0000 00000005 00000004 2a 01 01 00")
    assert consumer_group_records.read_current_member(value).state is MemberState.UNKNOWN


@pytest.mark.parametrize("name", WRITTEN)
def test_truncated_values_are_malformed(name: str) -> None:
    record, *_ = WRITTEN[name]
    assert record.value is not None
    read = {
        3: consumer_group_records.read_group,
        5: lambda value: consumer_group_records.read_member("m", value),
        6: consumer_group_records.read_target,
        7: consumer_group_records.read_target_member,
        8: consumer_group_records.read_current_member,
        16: consumer_group_records.read_regex,
    }[consumer_group_records.read_key(record.key).kind]
    for size in range(len(record.value)):
        with pytest.raises(Malformed):
            read(record.value[:size])
    with pytest.raises(Malformed):
        read(b"\0\1" + record.value[2:])


def test_tombstones_of_a_group() -> None:
    gone = consumer_group_records.without_group(GROUP, ["m1", "m2"], ["al.*"])
    assert [consumer_group_records.read_key(record.key) for record in gone] == [
        Key(8, GROUP, "m1"),
        Key(8, GROUP, "m2"),
        Key(7, GROUP, "m1"),
        Key(7, GROUP, "m2"),
        Key(6, GROUP, ""),
        Key(5, GROUP, "m1"),
        Key(5, GROUP, "m2"),
        Key(16, GROUP, "al.*"),
        Key(4, GROUP, ""),
        Key(3, GROUP, ""),
    ]
    assert all(record.value is None for record in gone)
    assert consumer_group_records.without_member(GROUP, "m1")[0] == JournalRecord(gone[0].key, None)


TEXTS = st.text(max_size=4)
PARTS = st.dictionaries(
    st.uuids(),
    st.dictionaries(st.integers(0, 9), st.integers(0, 9), min_size=1).map(
        lambda epochs: dict(sorted(epochs.items()))
    ),
)


@given(
    st.builds(
        ConsumerGroupMember,
        TEXTS,
        st.integers(-2, 9),
        st.integers(-1, 9),
        st.sampled_from(MemberState),
        instance_id=st.none() | TEXTS,
        rack_id=st.none() | TEXTS,
        topic_names=st.lists(TEXTS).map(in_order),
        topic_regex=st.none() | TEXTS,
        server_assignor=st.none() | TEXTS,
        assigned=PARTS,
        revoking=PARTS,
        classic=st.none() | st.just(ClassicProtocols(5, (("range", b"data"),))),
    )
)
def test_records_created_here_carry_what_decoding_gives(member: ConsumerGroupMember) -> None:
    record = run_at_once(consumer_group_records.member_in_steps(GROUP, member))
    assert record.value is not None
    assert record.decoded == consumer_group_records.read_member(member.member_id, record.value)
    current = run_at_once(consumer_group_records.current_member_in_steps(GROUP, member))
    assert current.value is not None
    assert current.decoded == consumer_group_records.read_current_member(current.value)
    target = {topic: tuple(partitions) for topic, partitions in member.assigned.items()}
    made = run_at_once(
        consumer_group_records.target_member_in_steps(GROUP, member.member_id, target)
    )
    assert made.value is not None
    assert made.decoded == consumer_group_records.read_target_member(made.value)
    resolved = Resolved(member.topic_names, 3, 4)
    regex = consumer_group_records.regex(GROUP, "t.*", resolved)
    assert regex.value is not None
    assert regex.decoded == consumer_group_records.read_regex(regex.value)


def test_members_of_many_topics_are_encoded_in_steps() -> None:
    topics = [UUID(int=number + 1) for number in range(2 * TOPICS_PER_STEP)]
    owned = {topic: {0: 7} for topic in topics}
    big = ConsumerGroupMember(
        "m", topic_names=in_order([str(topic) for topic in topics]), assigned=owned, revoking=owned
    )
    for work, pauses, written in (
        (
            consumer_group_records.member_in_steps(GROUP, big),
            2,
            run_at_once(consumer_group_records.member_in_steps(GROUP, big)),
        ),
        (
            consumer_group_records.current_member_in_steps(GROUP, big),
            4,
            run_at_once(consumer_group_records.current_member_in_steps(GROUP, big)),
        ),
        (
            consumer_group_records.target_member_in_steps(GROUP, "m", dict.fromkeys(topics, (0,))),
            2,
            run_at_once(
                consumer_group_records.target_member_in_steps(
                    GROUP, "m", dict.fromkeys(topics, (0,))
                )
            ),
        ),
    ):
        assert run_and_look(work) == (written, pauses, [])

"""Lists, descriptions and deletions of groups."""

from __future__ import annotations

import pytest

from kavka.groupcoord import listing
from kavka.groupcoord.listing import DescribedGroup, DescribedMember, ListedGroup
from kavka.wire.errors import ApiError, ErrorCode
from support.classic_groups import RANGE
from support.offset_groups import OffsetKit
from support.refusals import refusal


@pytest.fixture
def kit() -> OffsetKit:
    """A group "g" with a member, and one "simple" that only keeps offsets."""
    kit = OffsetKit()
    kit.commit_offsets({("t", 0): 1, ("t", 1): 2}, "simple")
    return kit


def listed(kit: OffsetKit, *states: str, kinds: tuple[str, ...] = ()) -> list[ListedGroup]:
    state = kit.shard.state
    return listing.listed(state, [*state.groups, "gone"], states, kinds, kit.now_ms)


def test_lists(kit: OffsetKit) -> None:
    simple = ListedGroup("simple", "", "Empty", "classic")
    assert listed(kit) == [simple]
    kit.form()
    stable = ListedGroup("g", "consumer", "Stable", "classic")
    assert listed(kit) == [simple, stable]
    assert listed(kit, "stable") == [stable]
    assert listed(kit, "stable", "empty") == [simple, stable]
    assert listed(kit, "dead") == []
    assert listed(kit, kinds=("classic",)) == [simple, stable]
    assert listed(kit, kinds=("consumer", "share")) == []
    assert listed(kit, "empty", kinds=("classic",)) == [simple]


def test_a_stable_group_is_described_with_its_assignment(kit: OffsetKit) -> None:
    (member_id,) = kit.form()
    found = listing.described(kit.shard.state, "g")
    member = DescribedMember(member_id, None, "c", "/127.0.0.1", RANGE[0].metadata, b"of 0")
    assert found == DescribedGroup("Stable", "consumer", "range", [member])


def test_a_group_in_a_rebalance_without(kit: OffsetKit) -> None:
    (member_id,) = kit.form()
    kit.join_twice(protocols=RANGE)
    found = listing.described(kit.shard.state, "g")
    member = DescribedMember(member_id, None, "c", "/127.0.0.1", b"", b"of 0")
    assert found[:3] == ("PreparingRebalance", "consumer", "")
    assert member in found.members


def test_a_group_of_offsets_is_described(kit: OffsetKit) -> None:
    assert listing.described(kit.shard.state, "simple") == DescribedGroup("Empty", "", "", [])


def test_groups_that_can_t_be_described(kit: OffsetKit) -> None:
    with pytest.raises(ApiError, match="Group nobody not found") as failure:
        listing.described(kit.shard.state, "nobody")
    assert failure.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    kit.shard.state.groups["new"] = object()  # type: ignore[assignment]
    with pytest.raises(ApiError, match="Group new is not a classic group") as failure:
        listing.described(kit.shard.state, "new")
    assert failure.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_goes_with_its_offsets(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 1): 5, ("u", 0): 6}, "simple", producer_id=7)
    before = len(kit.port.batches)
    assert kit.delete_group("simple")
    assert kit.offsets("simple") == {}
    assert "simple" not in kit.shard.state.groups
    ((records, _),) = kit.port.batches[before:]
    assert len(records) == 4 and all(record.value is None for record in records)
    kit.end(7, committed=True)
    assert kit.offsets("simple") == {}
    assert refusal(kit.delete_group, "simple") == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_stays(kit: OffsetKit) -> None:
    kit.form()
    assert refusal(kit.delete_group, "g") == ErrorCode.NON_EMPTY_GROUP
    assert "g" in kit.shard.state.groups


def test_many_offsets_go_in_steps(kit: OffsetKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "OFFSETS_MAX", 10)
    kit.commit_offsets({("t", index): 1 for index in range(25)}, "simple")
    assert [kit.delete_group("simple") for _ in range(3)] == [False, False, True]
    assert not kit.shard.state.groups
    assert [len(records) for records, _ in kit.port.batches[-3:]] == [10, 10, 6]


def test_long_names_go_in_steps(kit: OffsetKit) -> None:
    group_id = "g" * 30_000
    kit.commit_offsets({("t", index): 1 for index in range(40)}, group_id)
    assert [kit.delete_group(group_id) for _ in range(3)] == [False, False, True]


def test_a_group_of_just_one_step(kit: OffsetKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "OFFSETS_MAX", 2)
    assert kit.delete_group("simple")

"""Descriptions of classic groups, and deletions in steps. For the rest of lists and deletions see
`tests/scenarios/offsets/deleting.txt`."""

from __future__ import annotations

import pytest

from kavka.groupcoord import listing
from kavka.groupcoord.listing import DescribedGroup, DescribedMember
from kavka.wire.errors import ApiError, ErrorCode
from support.classic_groups import RANGE
from support.offset_groups import OffsetKit


def described(kit: OffsetKit, group_id: str = "g") -> DescribedGroup:
    return listing.described(kit.shard.state, group_id)


def test_a_group_is_described_with_its_members() -> None:
    kit = OffsetKit()
    (member_id,) = kit.form()
    member = DescribedMember(member_id, None, "c", "/127.0.0.1", RANGE[0].metadata, b"of 0")
    assert described(kit) == DescribedGroup("Stable", "consumer", "range", [member])
    kit.join_twice(protocols=RANGE)
    found = described(kit)
    assert found[:3] == ("PreparingRebalance", "consumer", "")
    assert member._replace(metadata=b"") in found.members
    kit.commit_offsets({("t", 0): 1}, "simple")
    assert described(kit, "simple") == DescribedGroup("Empty", "", "", [])


def test_groups_that_can_t_be_described() -> None:
    kit = OffsetKit()
    kit.client("m").join()
    for group_id, message in (
        ("unknown", "Group unknown not found"),
        ("g", "Group g is not a classic group"),
    ):
        with pytest.raises(ApiError, match=message) as failure:
            described(kit, group_id)
        assert failure.value.code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(("offsets", "batches"), [(25, [10, 10, 6]), (10, [11]), (9, [10])])
def test_a_step_deletes_a_limited_number_of_offsets(
    offsets: int, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "OFFSETS_MAX", 10)
    kit = OffsetKit()
    kit.commit_offsets({("t", index): 1 for index in range(offsets)})
    assert [kit.delete_group() for _ in batches] == [False] * (len(batches) - 1) + [True]
    assert not kit.shard.state.groups
    assert [len(records) for records, _ in kit.port.batches[1:]] == batches


def test_a_step_deletes_a_limited_number_of_bytes() -> None:
    kit = OffsetKit()
    group_id = "g" * 30_000
    kit.commit_offsets({("t", index): 1 for index in range(40)}, group_id)
    assert [kit.delete_group(group_id) for _ in range(3)] == [False, False, True]

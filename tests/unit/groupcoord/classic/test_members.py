"""One member of a classic group; how it votes, waits and is restored is in
tests/scenarios/classic_groups."""

from __future__ import annotations

from kavka.groupcoord.classic.group_records import StoredMember
from kavka.groupcoord.classic.members import ClassicGroupMember, member_timer, restored_member
from support.classic_groups import BOTH, RANGE, STICKY


def test_metadata_and_vote_depend_on_the_protocols() -> None:
    member = ClassicGroupMember("g", "m", None, "c", "/host", 60_000, 10_000, BOTH)
    metadata = [member.metadata(protocol) for protocol in ("sticky", "roundrobin", None)]
    assert metadata == [STICKY[0].metadata, b"", b""]
    candidates = [{"sticky", "range"}, {"sticky", "other"}, {"other"}]
    assert [member.vote(candidate) for candidate in candidates] == ["range", "sticky", None]
    assert member.timer == member_timer("g", "m") != member_timer("g", "n")


def test_the_session_timeout_replaces_a_rebalance_timeout_that_is_not_stored() -> None:
    metadata = RANGE[0].metadata
    stored = StoredMember("m", "i", "c", "/host", -1, 10_000, metadata, b"part")
    member = restored_member("g", "range", stored)
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (10_000, 10_000)
    assert (tuple(member.protocols), member.assignment) == (RANGE, b"part")

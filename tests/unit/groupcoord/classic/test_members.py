"""One member of a classic group."""

from __future__ import annotations

from kavka.groupcoord.classic.members import Member, member_timer, restored_member
from kavka.groupcoord.classic.records import StoredMember
from kavka.log.journal import Ticket
from support.classic_groups import BOTH, RANGE, STICKY


def member() -> Member:
    return Member("g", "m", None, "c", "/host", 60_000, 10_000, BOTH)


def test_what_it_said() -> None:
    assert member().metadata("sticky") == STICKY[0].metadata
    assert member().metadata("roundrobin") == b""
    assert member().metadata(None) == b""


def test_it_votes_for_what_it_likes_most() -> None:
    assert member().vote({"sticky", "range"}) == "range"
    assert member().vote({"sticky", "other"}) == "sticky"
    assert member().vote({"other"}) is None


def test_one_that_waits_need_not_send_heartbeats() -> None:
    one = member()
    assert not one.is_waiting
    one.join = Ticket()
    assert one.is_waiting
    one.is_new = True
    assert not one.is_waiting, "it could be gone, and nobody would know"
    one.is_new, one.join, one.sync = False, None, Ticket()
    assert one.is_waiting


def test_timers_are_those_of_the_id() -> None:
    assert member().timer == member_timer("g", "m") != member_timer("g", "n")


def test_one_out_of_a_record() -> None:
    stored = StoredMember("m", "i", "c", "/host", 60_000, 10_000, RANGE[0].metadata, b"part")
    one = restored_member("g", "range", stored)
    assert (one.member_id, one.instance_id, one.client_id, one.client_host) == (
        "m",
        "i",
        "c",
        "/host",
    )
    assert (one.rebalance_timeout_ms, one.session_timeout_ms) == (60_000, 10_000)
    assert (tuple(one.protocols), one.assignment) == (RANGE, b"part")


def test_old_records_have_no_rebalance_timeout() -> None:
    stored = StoredMember("m", None, "c", "/host", -1, 10_000, b"", b"")
    assert restored_member("g", "range", stored).rebalance_timeout_ms == 10_000

"""One step of a member's reconciliation with its target; the cases are KIP-848's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord.consumer.member import ConsumerGroupMember, MemberState
from kavka.groupcoord.consumer.reconcile import ReconcileGoal, reconcile_member
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.error_codes import error_code_of

TOPICS = {"t": UUID(int=1), "u": UUID(int=2)}
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def owned(text: str) -> dict[UUID, dict[int, int]]:
    """Partitions such as "t0@1", with the epochs at which they were assigned (else 0)."""
    found: dict[UUID, dict[int, int]] = {}
    for word in text.split():
        partition, _, epoch = word.partition("@")
        found.setdefault(TOPICS[partition[0]], {})[int(partition[1:])] = int(epoch or 0)
    return found


def member(epochs: str, assigned: str = "", revoking: str = "", state: MemberState = STABLE) -> Any:
    """Its previous and its current epoch, such as "1 2"."""
    previous, epoch = map(int, epochs.split())
    return ConsumerGroupMember(
        "m", epoch, previous, state, assigned=owned(assigned), revoking=owned(revoking)
    )


def step(before: ConsumerGroupMember, epoch: int, target: str, **more: Any) -> ConsumerGroupMember:
    """With partitions that others `own`, those that the member `reported`, and the topics to which
    it is `subscribed`."""
    taken = owned(more.get("others", ""))
    reported = more.get("reported")
    goal = ReconcileGoal(
        epoch,
        {topic: tuple(partitions) for topic, partitions in owned(target).items()},
        [TOPICS[letter] for letter in more.get("subscribed", "tu")],
        lambda topic, partition: any(
            partition in part.get(topic, ()) for part in (taken, before.assigned, before.revoking)
        ),
        None if reported is None else owned(reported),
        more.get("changed", False),
    )
    return run_at_once(reconcile_member(before, goal))


WAITS = member("0 1", "t0@1", state=UNRELEASED)
REVOKES = member("1 1", "t0@1", "t1@1", UNREVOKED)
TWO_TOPICS = member("1 2", "t0@2 u0@2")


@pytest.mark.parametrize(
    ("before", "epoch", "target", "more", "after"),
    [
        # it gets what has no owner, and waits for the rest
        (member("-1 0"), 1, "t0 t1", {}, member("0 1", "t0@1 t1@1")),
        (member("-1 0"), 1, "t0 t1", {"others": "t1"}, WAITS),
        (WAITS, 1, "t0 t1", {"others": "t1"}, member("1 1", "t0@1", state=UNRELEASED)),
        (WAITS, 1, "t0 t1", {}, member("1 1", "t0@1 t1@1")),
        # it revokes before it advances to the next epoch
        (member("0 1", "t0@1 t1@1"), 2, "t0 t2", {"reported": "t0 t1"}, REVOKES),
        (REVOKES, 2, "t0 t2", {}, REVOKES),
        (REVOKES, 2, "t0 t2", {"reported": "t0 t1"}, REVOKES),
        (REVOKES, 2, "t0 t2", {"reported": "t1"}, REVOKES),
        (REVOKES, 2, "t0 t2", {"reported": "t0"}, member("1 2", "t0@1 t2@2")),
        # it has revoked already
        (member("0 1", "t0@1 t1@1"), 2, "t0", {"reported": "t0"}, member("1 2", "t0@1")),
        # the target changes while it revokes: it can get at once what it has revoked itself
        (REVOKES, 3, "t0 t1", {"reported": "t0"}, member("1 3", "t0@1 t1@3")),
        # it is at its target
        (member("1 2", "t0@2"), 2, "t0 t1", {}, member("1 2", "t0@2")),
        (TWO_TOPICS, 2, "", {"changed": True}, TWO_TOPICS),
        # topics that it does not subscribe to any more are revoked at once
        (
            TWO_TOPICS,
            2,
            "t0",
            {"subscribed": "t", "reported": "t0 u0", "changed": True},
            member("2 2", "t0@2", "u0@2", UNREVOKED),
        ),
        (
            TWO_TOPICS,
            2,
            "t0",
            {"subscribed": "t", "reported": "t0", "changed": True},
            member("2 2", "t0@2"),
        ),
        (
            member("0 1", "t0@1 u1@1", "u0@1", UNREVOKED),
            2,
            "t0",
            {"subscribed": "t", "reported": "t0 u0 u1", "changed": True},
            member("1 1", "t0@1", "u0@1 u1@1", UNREVOKED),
        ),
        # a target with topics that it does not subscribe to
        (member("0 1", "t0@1"), 2, "t0 u0", {"subscribed": "t"}, member("1 2", "t0@1")),
        # an unknown state: a member without partitions starts again
        (
            member("0 1", "t0@1", state=UNKNOWN),
            3,
            "t0",
            {"reported": ""},
            member("1 3", "t0@1"),
        ),
    ],
)
def test_step(
    before: ConsumerGroupMember, epoch: int, target: str, more: Any, after: ConsumerGroupMember
) -> None:
    assert step(before, epoch, target, **more) == after


@pytest.mark.parametrize("reported", [None, "t0"])
def test_a_member_with_partitions_in_an_unknown_state_is_fenced(reported: str | None) -> None:
    before = member("0 1", "t0@1", state=UNKNOWN)
    code = error_code_of(lambda: step(before, 3, "t0", reported=reported))
    assert code is ErrorCode.FENCED_MEMBER_EPOCH

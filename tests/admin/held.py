"""Groups that clients describe: made by plain requests, without running members.

`held` is a classic group with a static member, `new` one of the newer protocol, `idle` has offsets
and no member.
"""

from __future__ import annotations

from typing import Any, Final

from admin.place import PARTITIONS, WITHIN_S, Place
from support.wait import eventually

HELD: Final = "held"
NEW: Final = "new"
IDLE: Final = "idle"
SPARE: Final = "spare"
"""As `idle`; to be deleted."""
MISSING: Final = "nobody"
"""A group that does not exist."""
INSTANCE: Final = "an-instance"
SESSION_MS: Final = 600_000
COORDINATING: Final = (14, 15, 16)
OFFSET: Final = 1


def write_groups(place: Place) -> None:
    """Make them. All are of the topic `data`, with offset 1 committed in each partition."""

    def is_coordinated() -> bool:
        found = place.request("OffsetFetch", 5, group_id=place.topic(HELD), topics=[])
        return found["error_code"] not in COORDINATING

    place.request("FindCoordinator", 3, key=place.topic(HELD), key_type=0)
    eventually(is_coordinated, within_s=WITHIN_S, what="groups have coordinators")
    for label in (IDLE, SPARE, NEW):
        eventually(lambda: _commit(place, label), within_s=WITHIN_S, what=f"{label} is there")  # noqa: B023 - called here
    _hold_classic(place)
    _hold_new(place)


def _commit(place: Place, label: str, generation: int = -1, member: str = "") -> bool:
    partitions = [
        {"partition_index": index, "committed_offset": OFFSET, "committed_metadata": ""}
        for index in range(PARTITIONS)
    ]
    answer = place.request(
        "OffsetCommit",
        8,
        group_id=place.topic(label),
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[{"name": place.topic("data"), "partitions": partitions}],
    )
    codes = {partition["error_code"] for partition in answer["topics"][0]["partitions"]}
    return codes == {0}


def _hold_classic(place: Place) -> None:
    topic = place.topic("data").encode()
    name = len(topic).to_bytes(2, "big") + topic
    subscription = b"\0\0\0\0\0\1" + name + b"\0\0\0\0"
    given = b"\0\0\0\0\0\1" + name + b"\0\0\0\2\0\0\0\0\0\0\0\1" + b"\0\0\0\0"
    group = place.topic(HELD)
    joined = place.request(
        "JoinGroup",
        7,
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id="",
        group_instance_id=INSTANCE,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": subscription}],
    )
    assert joined["error_code"] == 0, joined
    member: dict[str, Any] = {
        "group_id": group,
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        "group_instance_id": INSTANCE,
    }
    assignments = [{"member_id": joined["member_id"], "assignment": given}]
    synced = place.request("SyncGroup", 3, **member, assignments=assignments)
    assert synced["error_code"] == 0, synced
    assert _commit(place, HELD, joined["generation_id"], joined["member_id"])


def _hold_new(place: Place) -> None:
    joined = place.request(
        "ConsumerGroupHeartbeat",
        1,
        group_id=place.topic(NEW),
        member_id=f"{place.prefix}-member",
        member_epoch=0,
        rebalance_timeout_ms=SESSION_MS,
        subscribed_topic_names=[place.topic("data")],
        topic_partitions=[],
    )
    assert joined["error_code"] == 0, joined

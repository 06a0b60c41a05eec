"""Members of groups of the protocol in which the broker assigns (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.compat_tests.raw.case import FIRST_LINK, Ground, Script, Step, looking
from kavka.compat_tests.raw.members import SESSION_MS, Answer, Asking, ask, version_of

OWN_IDS_SINCE: Final = 1
"""Clients draw the ids of members themselves, since this version of the heartbeat."""
ASSIGNED_AT_ONCE: Final = ("group.consumer.assignment.interval.ms", "0")
"""A setting without which a change of the group is seen only later."""
LEAVING: Final = -1
PAUSING: Final = -2
"""The epoch with which an instance says that it will be back."""


class ConsumerMember:
    """One member; it has a connection, `link`, for itself."""

    def __init__(
        self,
        on: Ground,
        link: str = FIRST_LINK,
        *,
        group: str | None = None,
        topics: Sequence[str] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        regex: str | None = None,
    ) -> None:
        on.needs(*ASSIGNED_AT_ONCE)
        self.on = on
        self.link = link
        self.group = on.group if group is None else group
        self.topics = [on.topic] if topics is None else list(topics)
        self.instance = instance
        self.assignor = assignor
        self.regex = regex
        own_id = version_of(on, "ConsumerGroupHeartbeat") >= OWN_IDS_SINCE
        self.id = f"member-{link}" if own_id else ""
        self.epoch = 0
        self.owned: list[Answer] = []

    def joining(self, **more: Any) -> Step:
        """A heartbeat with all fields: the first one."""
        values = {
            "member_epoch": 0,
            "instance_id": self.instance,
            "rebalance_timeout_ms": SESSION_MS,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }
        return self.heartbeating(**{**values, **more})

    def heartbeating(self, **more: Any) -> Step:
        """A heartbeat without changes."""
        values = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "rebalance_timeout_ms": -1,
        }
        return ask(self.on, "ConsumerGroupHeartbeat", link=self.link, **{**values, **more})

    def join(self, **more: Any) -> Asking:
        """Join; the answer."""
        return (yield from self.followed(self.joining(**more)))

    def heartbeat(self, **more: Any) -> Asking:
        """A heartbeat whose answer is taken for true."""
        return (yield from self.followed(self.heartbeating(**more)))

    def own(self) -> Asking:
        """Report that what was assigned is owned, and what was not is given back."""
        return (yield from self.heartbeat(topic_partitions=self.owned))

    def followed(self, step: Step) -> Asking:
        answer = yield step
        if not answer["error_code"]:
            self.id, self.epoch = answer["member_id"], answer["member_epoch"]
            if answer["assignment"] is not None:
                self.owned = [
                    {"topic_id": topic["topic_id"], "partitions": topic["partitions"]}
                    for topic in answer["assignment"]["topic_partitions"]
                ]
        return answer

    def leaving(self, epoch: int = LEAVING, **more: Any) -> Step:
        """Leave, or pause."""
        return self.heartbeating(member_epoch=epoch, **more)


def reconcile(members: Sequence[ConsumerMember]) -> Script:
    """Let all of them report what they own until nothing changes any more; nothing is compared."""
    for _ in looking():
        changed = False
        for member in members:
            before = (member.epoch, member.owned)
            step = member.heartbeating(topic_partitions=member.owned, compared=False)
            yield from member.followed(step)
            changed |= before != (member.epoch, member.owned)
        if not changed:
            return


def consumer_group(on: Ground, *, compared: bool = True) -> Step:
    """A ConsumerGroupDescribe request for the script's group."""
    if on.case.api == "ConsumerGroupDescribe":
        return on.ask(group_ids=[on.group], compared=compared)
    return on.other("ConsumerGroupDescribe", 1, group_ids=[on.group], compared=compared)

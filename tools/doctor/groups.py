"""Judges groups: those that rebalance and don't come to an end, and those that nobody reads for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from kavka.tools.doctor.findings import Finding, error, note, ok, warning
from kavka.tools.doctor.health import named

STEP: Final = "groups"
UNSETTLED: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)
EMPTY: Final = "Empty"
CHANGES_MAX: Final = 1
"""How often members may come or go while it is watched: one may have just been started."""

TopicPartition: TypeAlias = tuple[str, int]


class Sample(NamedTuple):
    """A group at one moment."""

    state: str
    members: frozenset[str]
    """Their ids, which are new each time a member joins again."""
    epoch: int = -1
    """Of a consumer group: raised by each rebalance."""


class Ends(NamedTuple):
    """The first offset of a partition, and the one behind its last."""

    start: int
    end: int


@dataclass
class Group:
    """What was seen of a group over a while."""

    group_id: str
    protocol: str
    """`consumer`, `connect`; "" for one whose consumers assign their partitions themselves."""
    samples: list[Sample] = field(default_factory=list)
    clients: Sequence[str] = ()
    """The client ids of its members."""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)


def judge_groups(
    groups: Sequence[Group], ends: Mapping[TopicPartition, Ends], watched_s: float
) -> list[Finding]:
    """All that is wrong with them."""
    findings = [finding for group in groups for finding in _judge(group, ends, watched_s)]
    if findings:
        return findings
    return [ok(STEP, "all", f"{len(groups)} are settled, and have members if there is a lag")]


def _judge(group: Group, ends: Mapping[TopicPartition, Ends], watched_s: float) -> list[Finding]:
    if not group.samples:
        return []
    findings = [*_rebalances(group, watched_s), *_out_of_range(group, ends)]
    lag = {
        topic_partition: ends[topic_partition].end - max(offset, ends[topic_partition].start)
        for topic_partition, offset in group.committed.items()
        if topic_partition in ends and offset < ends[topic_partition].end
    }
    behind = sum(lag.values())
    if not behind or any(sample.state != EMPTY for sample in group.samples):
        return findings
    found = f"has no members, and {behind} records wait for it in {named(map(_name, sorted(lag)))}"
    if not group.protocol:
        findings.append(
            note(
                STEP,
                "lag-alone",
                group.group_id,
                f"{found}; it belongs to consumers that assign their partitions themselves, which "
                "may be running",
            )
        )
    else:
        findings.append(
            warning(
                STEP,
                "lag-without-members",
                group.group_id,
                found,
                "start its consumers; if it is not used any more, kavka consumer-groups --delete "
                f"--group {group.group_id}",
            )
        )
    return findings


def _rebalances(group: Group, watched_s: float) -> list[Finding]:
    samples = group.samples
    clients = f" (clients: {named(sorted(set(group.clients)))})" if group.clients else ""
    if all(sample.state in UNSETTLED for sample in samples):
        return [
            warning(
                STEP,
                "rebalancing",
                group.group_id,
                f"has been rebalancing for all of the {watched_s:g} s that it was watched: its "
                f"members read nothing meanwhile{clients}",
                "a member takes long to join again: it works on what its last poll gave it. Lower "
                "max.poll.records, or look for a client that hangs; if it goes on, members may "
                "have no assignor in common (partition.assignment.strategy)",
            )
        ]
    pairs = list(zip(samples, samples[1:], strict=False))
    changes = sum(
        (before.members, before.epoch) != (after.members, after.epoch)
        or (before.state in UNSETTLED) < (after.state in UNSETTLED)
        for before, after in pairs
    )
    if changes <= CHANGES_MAX:
        return []
    return [
        warning(
            STEP,
            "restless",
            group.group_id,
            f"has begun to rebalance {changes} times in {watched_s:g} s: its members come and go"
            f"{clients}",
            "look at the logs of its members: they crash and come back, or leave because they poll "
            "too seldom. Raise max.poll.interval.ms or lower max.poll.records; let members that "
            "restart keep their place by group.instance.id",
        )
    ]


def _out_of_range(group: Group, ends: Mapping[TopicPartition, Ends]) -> list[Finding]:
    behind_end = sorted(
        topic_partition
        for topic_partition, offset in group.committed.items()
        if topic_partition in ends and offset > ends[topic_partition].end
    )
    lost = sorted(
        topic_partition
        for topic_partition, offset in group.committed.items()
        if topic_partition in ends and 0 <= offset < ends[topic_partition].start
    )
    findings = []
    if behind_end:
        findings.append(
            error(
                STEP,
                "offset-behind-end",
                group.group_id,
                f"has committed offsets behind the end of {named(map(_name, behind_end))}: the "
                "topic was made anew, or lost records",
                _reset(group),
            )
        )
    if lost:
        findings.append(
            warning(
                STEP,
                "offset-deleted",
                group.group_id,
                f"has not read records of {named(map(_name, lost))} that have been deleted by now",
                "its consumers go on by auto.offset.reset. Raise the topic's retention, or read "
                "faster",
            )
        )
    return findings


def _reset(group: Group) -> str:
    return (
        "its consumers go on by auto.offset.reset. Stop them and set the offsets: "
        f"kavka consumer-groups --reset-offsets --group {group.group_id} --to-earliest --execute "
        "--topic TOPIC"
    )


def _name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition[0]}-{topic_partition[1]}"

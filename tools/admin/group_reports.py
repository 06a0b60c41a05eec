"""How described groups are printed: in Apache Kafka's form, as JSON, as CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.group_descriptions import Group, Member
from kavka.tools.admin.group_offsets import Progress
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.printing import PROGRAM_FORMS, joined, print_rows, print_table
from kavka.tools.java_text import length

MISSING: Final = "-"
WAITING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
LEAST: Final = 15
"""The least width of a column whose content may be long."""

Followed = Sequence[tuple[Group, Sequence[Progress]]]
"""Groups with their partitions."""


def print_error(text: str) -> None:
    """What went wrong, where Apache Kafka prints it."""
    print(f"\nError: {text}")


def print_offsets(groups: Followed, form: str | None, *, verbose: bool) -> None:
    """The partitions of each group."""
    if form in PROGRAM_FORMS:
        columns = (
            *("group", "topic", "partition", "leaderEpoch", "currentOffset", "logEndOffset"),
            *("lag", "consumerId", "host", "clientId"),
        )
        rows = [
            [group.group_id, *_progress(progress)] for group, some in groups for progress in some
        ]
        print_rows("partitions", columns, rows, form)
        return
    for group, some in groups:
        if _announce(group) and some:
            _print_offsets(group, some, verbose=verbose)


def print_members(groups: Iterable[Group], form: str | None, *, verbose: bool) -> None:
    """The members of each group."""
    if form in PROGRAM_FORMS:
        columns = (
            *("group", "consumerId", "groupInstanceId", "host", "clientId", "currentEpoch"),
            *("assignment", "targetEpoch", "targetAssignment", "upgraded"),
        )
        show = _by_topic if form == "json" else assigned
        rows = [_member(group, member, show) for group in groups for member in group.members]
        print_rows("members", columns, rows, form)
        return
    for group in groups:
        members = group.members if _announce(group) else ()
        _print_members(group, members, verbose=verbose)


def print_states(groups: Iterable[Group], form: str | None, *, verbose: bool) -> None:
    """What each group is doing."""
    if form in PROGRAM_FORMS:
        columns = (
            *("group", "coordinator", "host", "port", "assignmentStrategy", "state", "groupEpoch"),
            *("targetAssignmentEpoch", "members"),
        )
        print_rows("groups", columns, [_state(group) for group in groups], form)
        return
    for group in groups:
        if _announce(group):
            _print_state(group, verbose=verbose)


def assigned(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic: a:0,1;b:0."""
    return ";".join(
        sorted(f"{topic}:{joined(some)}" for topic, some in _by_topic(partitions).items())
    )


def _announce(group: Group) -> bool:
    """Say what is special about it; whether there is more to say. Failed."""
    name = group.group_id
    if group.state == "Dead":
        print_error(f"Consumer group '{name}' does not exist.")
        return False
    if group.state == "Empty":
        print(f"\nConsumer group '{name}' has no active members.", file=sys.stderr)
    elif group.state in WAITING:
        print(f"\nWarning: Consumer group '{name}' is rebalancing.", file=sys.stderr)
    elif group.state != "Stable":
        raise Failed(f"Expected a valid consumer group state, but found '{group.state}'.")
    return True


def _progress(progress: Progress) -> list[object]:
    return [
        *(
            progress.topic,
            progress.partition,
            progress.leader_epoch,
            progress.offset,
            progress.end_offset,
            progress.lag,
        ),
        *(progress.member_id, progress.host, progress.client_id),
    ]


def _print_offsets(group: Group, some: Sequence[Progress], *, verbose: bool) -> None:
    header = (
        *("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET"),
        *("LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
    )
    rows = [[group.group_id, *map(_shown, _progress(progress))] for progress in some]
    widths = [_width(rows, at) for at in range(len(header))]
    widths[2:7] = (10, 15, 15, 15, 15)
    widths[-1] = 0
    shown = [at for at in range(len(header)) if verbose or header[at] != "LEADER-EPOCH"]
    print()
    print_table(
        [widths[at] for at in shown], ([row[at] for at in shown] for row in (header, *rows))
    )


def _member(group: Group, member: Member, show: Any) -> list[object]:
    return [
        *(
            group.group_id,
            member.member_id,
            member.instance_id or None,
            member.host,
            member.client_id,
        ),
        *(
            member.epoch,
            show(member.owned),
            group.target_epoch,
            show(member.target),
            member.is_upgraded,
        ),
    ]


def _print_members(group: Group, members: Sequence[Member], *, verbose: bool) -> None:
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [
        [
            *(group.group_id, member.member_id, member.instance_id, member.host, member.client_id),
            str(len(member.owned)),
        ]
        for member in members
    ]
    widths = [_width(rows, at) for at in range(len(header))]
    widths[2], widths[5] = _width(rows, 2, 17), 15
    if not any(member.instance_id for member in members):
        del header[2], widths[2]
        for row in rows:
            del row[2]
    header.append("")  # a space behind the last column
    widths.append(0)
    more = [_epochs(group, member) if verbose else [] for member in members]
    if verbose:
        header[-1:] = ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")
        widths[-1:] = (15, _width(more, 1, 20), 15, _width(more, 3, 20))
        if {member.is_upgraded for member in members} >= {True, False}:
            header.append("UPGRADED")
            widths.append(0)
        else:
            more = [row[:-1] for row in more]
    else:
        more = [[""] for _ in members]
    print()
    print_table(widths, (header, *(row + rest for row, rest in zip(rows, more, strict=True))))


def _epochs(group: Group, member: Member) -> list[str]:
    return [
        _shown(member.epoch),
        assigned(member.owned) or MISSING,
        _shown(group.target_epoch),
        assigned(member.target) or MISSING,
        MISSING if member.is_upgraded is None else str(member.is_upgraded).lower(),
    ]


def _state(group: Group) -> list[object]:
    broker = group.coordinator
    return [
        *(group.group_id, broker.node_id, broker.host, broker.port, group.assignor, group.state),
        *(group.epoch, group.target_epoch, len(group.members)),
    ]


def _print_state(group: Group, *, verbose: bool) -> None:
    broker = group.coordinator
    coordinator = f"{broker.host}:{broker.port}  ({broker.node_id})"
    columns = [
        ("GROUP", group.group_id, max(LEAST, length(group.group_id))),
        ("COORDINATOR (ID)", coordinator, max(25, len(coordinator))),
        ("ASSIGNMENT-STRATEGY", group.assignor or MISSING, 20),
        ("STATE", group.state, 20),
        ("#MEMBERS", str(len(group.members)), 0),
    ]
    if verbose:
        columns[-1:-1] = [
            ("GROUP-EPOCH", _shown(group.epoch), 15),
            ("TARGET-ASSIGNMENT-EPOCH", _shown(group.target_epoch), 25),
        ]
    header, row, widths = zip(*columns, strict=True)
    print()
    print_table(widths, (header, row))


def _shown(value: object) -> str:
    return MISSING if value is None else str(value)


def _width(rows: Iterable[Sequence[str]], at: int, least: int = LEAST) -> int:
    return max([least, *(length(row[at]) for row in rows)])


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found

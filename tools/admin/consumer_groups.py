"""`kavka consumer-groups`: as Apache Kafka's kafka-consumer-groups, option by option.

What goes wrong in the cluster is printed on standard output, with exit code 0, as Apache Kafka
does; with --output json or csv on standard error, with exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kavka.tools.admin import group_reports
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.consumer_group_options import ACTIONS, OPTIONS, check, listed, timeout_s
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.group_descriptions import CONSUMER_PROTOCOLS, describe, describe_all
from kavka.tools.admin.group_offsets import progress_of
from kavka.tools.admin.group_reports import print_error
from kavka.tools.admin.group_requests import (
    commit_offsets,
    delete_all,
    delete_offsets,
    listed_groups,
)
from kavka.tools.admin.java_errors import IN_FUTURE, Refused
from kavka.tools.admin.java_order import hash_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.offset_resets import Resets, exported, named_partitions, number_of
from kavka.tools.admin.options import Given
from kavka.tools.admin.printing import PROGRAM_FORMS, print_rows, print_table
from kavka.tools.admin.regexes import reason_against
from kavka.tools.java_text import length
from kavka.tools.progress import progress
from kavka.wire.errors import ErrorCode

FAILURE: Final = "Executing consumer group command failed due to "
PARTITION_LEVEL: Final = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
GROUP_LEVEL: Final = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
NOT_DONE: Final = (
    "WARN: No action will be performed as the --execute option is missing. Give --dry-run to say "
    "that this is meant: Apache Kafka 5 will ask for one of both."
)
RESETTABLE: Final = ("Empty", "Dead")


async def run(cluster: ClusterClient, given: Given) -> int:
    """Do the one action."""
    actions: Mapping[str, Callable[[ClusterClient, Given], Awaitable[int]]] = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "reset-offsets": _reset,
        "delete-offsets": _delete_offsets,
    }
    for name in ("to-offset", "shift-by", "timeout"):
        number_of(given, name)
    (action,) = (option for option in ACTIONS if given.has(option))
    return await actions[action](cluster, given)


def alone(given: Given) -> int | None:
    """--validate-regex needs no cluster."""
    expression = given.text("validate-regex")
    if expression is None:
        return None
    reason = reason_against(expression)
    said = "valid" if reason is None else f"invalid: {reason}"
    print(f"The regular expression `{expression}` is {said}.")
    return 0


def fail(failed: Failed, given: Given) -> int:
    """Say what has gone wrong; the exit code."""
    if given.text("output") in PROGRAM_FORMS:
        print(failed, file=sys.stderr)
        return 1
    print_error(f"{FAILURE}{failed}")
    return 0


TOOL: Final = Tool(
    "consumer-groups",
    "List, describe or delete consumer groups, or change their offsets.",
    OPTIONS,
    check,
    run,
    alone,
    fail,
)


async def _list(cluster: ClusterClient, given: Given) -> int:
    form, types = given.text("output"), listed(given.text("type"))
    groups = await listed_groups(
        cluster,
        timeout_s(given),
        states=listed(given.text("state")),
        types=types,
        protocols=CONSUMER_PROTOCOLS,
    )
    if form in PROGRAM_FORMS:
        rows = [(group.group_id, group.group_type, group.group_state) for group in groups]
        print_rows("groups", ("group", "type", "state"), rows, form)
        return 0
    columns = [("GROUP", [group.group_id for group in groups])]
    if given.has("type"):
        columns.append(("TYPE", [group.group_type or "Unknown" for group in groups]))
    if given.has("state"):
        columns.append(("STATE", [group.group_state or "Unknown" for group in groups]))
    names, cells = zip(*columns, strict=True)
    if len(names) == 1:
        for group in groups:
            print(group.group_id)
        return 0
    width = 10 + max([15, *(length(group.group_id) for group in groups)])
    print_table([width, 20, 20][: len(names)], [names, *zip(*cells, strict=True)])
    return 0


async def _chosen(cluster: ClusterClient, given: Given) -> Sequence[str]:
    if not given.has("all-groups"):
        return given.texts("group")
    groups = await listed_groups(cluster, timeout_s(given), protocols=CONSUMER_PROTOCOLS)
    return [group.group_id for group in groups]


async def _describe(cluster: ClusterClient, given: Given) -> int:
    within_s, form, verbose = timeout_s(given), given.text("output"), given.has("verbose")
    found = await describe_all(cluster, await _chosen(cluster, given), within_s)
    groups = [found[group_id] for group_id in sorted(found)]
    if given.has("members"):
        group_reports.print_members(groups, form, verbose=verbose)
    elif given.has("state"):
        group_reports.print_states(groups, form, verbose=verbose)
    else:
        rows = []
        with progress("groups asked", len(groups)) as step:
            for group in groups:
                rows.append((group, await progress_of(cluster, group, within_s)))
                step()
        group_reports.print_offsets(rows, form, verbose=verbose)
    return 0


async def _delete(cluster: ClusterClient, given: Given) -> int:
    chosen = await _chosen(cluster, given)
    outcomes = await delete_all(cluster, chosen, timeout_s(given))
    form = given.text("output")
    if form in PROGRAM_FORMS:
        rows = [(group_id, _name(refused)) for group_id, refused in outcomes.items()]
        print_rows("groups", ("group", "error"), rows, form)
        return int(any(outcomes.values()))
    done = ", ".join(f"'{group_id}'" for group_id, refused in outcomes.items() if refused is None)
    if not any(outcomes.values()):
        print(f"Deletion of requested consumer groups ({done}) was successful.")
        return 0
    print_error("Deletion of some consumer groups failed:")
    for group_id, refused in outcomes.items():
        if refused is not None:
            print(f"* Group '{group_id}' could not be deleted due to: {refused.described}")
    if done:
        print(f"\nThese consumer groups were deleted successfully: {done}")
    return 0


async def _delete_offsets(cluster: ClusterClient, given: Given) -> int:
    group_id, texts = given.text("group") or "", given.texts("topic")
    partitions = [
        topic_partition
        for text in texts
        if ":" in text
        for topic_partition in named_partitions(text)
    ]
    outcomes: dict[TopicPartition, Refused | None] = {}
    topics = await cluster.topics_named(text for text in texts if ":" not in text)
    for name, topic in topics.items():
        if topic.error_code:
            outcomes[name, -1] = Refused(topic.error_code)
        else:
            partitions += [(name, partition.partition_index) for partition in topic.partitions]
    top: Refused | None = None
    try:
        codes = await delete_offsets(cluster, group_id, partitions, timeout_s(given))
    except Refused as refused:
        top = refused
        outcomes |= dict.fromkeys(partitions, refused)
    else:
        refusals = {
            topic_partition: Refused(code) if code else None
            for topic_partition, code in codes.items()
        }
        top = next(filter(None, refusals.values()), None)
        outcomes |= refusals
    ordered = sorted(outcomes.items(), key=lambda item: f"{item[0][0]}{item[0][1]}")
    form = given.text("output")
    if form in PROGRAM_FORMS:
        rows = [
            (topic, None if number < 0 else number, _name(refused))
            for (topic, number), refused in ordered
        ]
        print_rows("partitions", ("topic", "partition", "error"), rows, form)
        return int(any(outcomes.values()))
    _say(top, group_id)
    width = max([15, *(len(topic) for topic, _ in outcomes)])
    shown = [
        (
            topic,
            "-" if number < 0 else number,
            "Successful" if refused is None else f"Error: {refused.described}",
        )
        for (topic, number), refused in ordered
    ]
    print()
    print_table((width, 10, 15), [("TOPIC", "PARTITION", "STATUS"), *shown])
    return 0


def _say(refused: Refused | None, group_id: str) -> None:
    """What became of the whole request."""
    if refused is None:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif refused.code in GROUP_LEVEL:
        print_error(refused.message)
    elif refused.code in PARTITION_LEVEL:
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(f"Encountered some unknown error: {refused.code.name}")


async def _reset(cluster: ClusterClient, given: Given) -> int:
    within_s, form = timeout_s(given), given.text("output")
    resets = Resets(cluster, given, within_s)
    chosen = await _chosen(cluster, given)
    plans: dict[str, Mapping[TopicPartition, int]] = {}
    for group_id, group in (await describe(cluster, chosen, within_s)).items():
        plans[group_id] = {}
        if isinstance(group, Refused):
            if group.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise Failed(group.in_future)
        elif isinstance(group, Failed):
            raise Failed(f"{IN_FUTURE}: {group}")
        elif group.state not in RESETTABLE:
            why = (
                f"Assignments can only be reset if the group '{group_id}' is inactive, but the "
                f"current state is {group.state}."
            )
            if form in PROGRAM_FORMS:
                raise Failed(why)
            print_error(why)
            continue
        plans[group_id] = await resets.plan(group_id)
        if given.has("execute") and plans[group_id]:
            await commit_offsets(cluster, group_id, plans[group_id], within_s)
    if not given.has("dry-run") and not given.has("execute"):
        print(NOT_DONE, file=sys.stderr)
    plans = {group_id: plans[group_id] for group_id in hash_order(plans)}
    rows = [
        (group_id, *topic_partition, new)
        for group_id, plan in plans.items()
        for topic_partition, new in plan.items()
    ]
    if form in PROGRAM_FORMS:
        print_rows("partitions", ("group", "topic", "partition", "newOffset"), rows, form)
    elif given.has("export"):
        print(exported(plans, with_group=len(given.texts("group")) != 1))
    else:
        _print_resets(plans, rows)
    return 0


def _print_resets(
    plans: Mapping[str, Mapping[TopicPartition, int]], rows: Sequence[tuple[str, str, int, int]]
) -> None:
    print()
    if not plans:
        return
    widths = (
        max([15, *map(length, plans)]),
        max([15, *(len(topic) for _, topic, _, _ in rows)]),
        10,
        0,
    )
    print_table(widths, [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows])


def _name(refused: Refused | None) -> str | None:
    return None if refused is None else refused.code.name

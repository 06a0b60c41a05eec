"""`kavka groups`: as Apache Kafka's kafka-groups, option by option."""

from __future__ import annotations

from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.group_descriptions import CONSUMER_PROTOCOLS
from kavka.tools.admin.group_requests import listed_groups
from kavka.tools.admin.options import Given, Option
from kavka.tools.admin.printing import PROGRAM_FORMS, print_failure, print_rows, print_table
from kavka.tools.java_text import length
from kavka.wire.apis.list_groups import ListedGroup

WITHIN_S: Final = 30.0
LEAST: Final = 20
TYPES: Final = ("classic", "consumer", "share", "streams")
FAILURE: Final = "Error while executing groups command : "

OPTIONS: Final = (
    Option("list", "Print all groups, with type and protocol."),
    Option("group-type", "Groups of one type only: classic, consumer, share or streams.", "TYPE"),
    Option("protocol", "Groups of one type of the classic protocol only.", "PROTOCOL"),
    Option("consumer", "Groups of consumers only, of either protocol."),
    Option("share", "Share groups only."),
    Option("streams", "Streams groups only."),
)


def check(given: Given) -> None:
    """Refuse what does not go together."""
    given.needs("bootstrap-server")
    if not given.has("list"):
        raise Misused("Command must include exactly one action: --list")
    kind = given.text("group-type")
    if kind is not None and kind.lower() not in TYPES:
        raise Misused("--group-type must be a valid group type")
    for name in ("consumer", "share", "streams"):
        others = ("group-type", "protocol", "consumer", "share", "streams")
        given.excludes(name, (other for other in others if other != name))


async def run(cluster: ClusterClient, given: Given) -> int:
    """Print the groups."""
    found = await listed_groups(cluster, WITHIN_S)
    rows = [
        (group.group_id, group.group_type, group.protocol_type)
        for group in found
        if _takes(given, group)
    ]
    form = given.text("output")
    if form in PROGRAM_FORMS:
        print_rows("groups", ("group", "type", "protocol"), rows, form)
        return 0
    width = max([LEAST, *(length(cell) for row in rows for cell in row)])
    print_table((width,) * 3, [("GROUP", "TYPE", "PROTOCOL")])
    print_table((*(width,) * 3, 0), [(*row, "") for row in rows])  # ends with a space
    return 0


def fail(failed: Failed, given: Given) -> int:
    """Say what has gone wrong; the exit code."""
    print_failure(f"{FAILURE}{failed}", given.text("output"))
    return 1


TOOL: Final = Tool("groups", "List groups of all types.", OPTIONS, check, run, fail=fail)


def _takes(given: Given, group: ListedGroup) -> bool:
    kind, protocol = given.text("group-type"), given.text("protocol")
    actual = group.group_type.lower()
    if kind is not None or protocol is not None:
        right_kind = kind is None or actual == kind.lower()
        return right_kind and protocol in (None, group.protocol_type)
    if given.has("consumer"):
        return group.protocol_type in CONSUMER_PROTOCOLS or actual == "consumer"
    kinds = [name for name in ("share", "streams") if given.has(name)]
    return not kinds or actual in kinds

"""The options of `kavka consumer-groups`, and which go together."""

from __future__ import annotations

from typing import Final

from kavka.tools.admin.errors import Misused
from kavka.tools.admin.offset_resets import SCENARIOS, number_of
from kavka.tools.admin.options import Given, Option

ACTIONS: Final = (
    *("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex"),
)
WHICH: Final = ("group", "all-groups")
PARTS: Final = ("members", "offsets", "state")

STATES: Final = (
    *("preparingrebalance", "completingrebalance", "stable", "dead", "empty", "assigning"),
    "reconciling",
)
TYPES: Final = ("classic", "consumer")

OPTIONS: Final = (
    Option("list", "Print the ids of all consumer groups."),
    Option("describe", "Print groups: their partitions with how far they are."),
    Option("delete", "Delete groups that have no members, with their offsets."),
    Option(
        "reset-offsets",
        "Give a group without members new offsets: print them, and with --execute commit them.",
    ),
    Option("delete-offsets", "Forget a group's offsets of the topics that --topic names."),
    Option(
        "validate-regex",
        "Say whether consumers may subscribe by this expression.",
        "REGEX",
        text_only=True,
    ),
    Option("group", "A group; may be given many times.", "GROUP"),
    Option("all-groups", "All groups, in place of --group."),
    Option(
        "topic",
        "A topic, or some of its partitions as TOPIC:0,1; may be given many times.",
        "TOPIC",
    ),
    Option("all-topics", "All topics that the group has offsets of, in place of --topic."),
    Option("offsets", "Describe the group's partitions; so it is by default."),
    Option("members", "Describe the group's members."),
    Option(
        "state",
        "Describe what the group is doing. With --list: print each group's state, or only groups "
        "in some, with commas between.",
        "STATE,..",
        is_optional=True,
    ),
    Option("verbose", "Describe more: leader epochs, assignments, epochs of the group."),
    Option(
        "type",
        "With --list: print each group's type, or only groups of some: classic, consumer.",
        "TYPE,..",
        is_optional=True,
    ),
    Option("dry-run", "Only print the new offsets; so it is by default."),
    Option("execute", "Commit the new offsets."),
    Option("export", "Print the new offsets as CSV, as --from-file reads them."),
    Option("to-earliest", "The new offsets are where the partitions begin."),
    Option("to-latest", "The new offsets are where the partitions end."),
    Option("to-current", "The new offsets are those that the group has, or the end."),
    Option("to-offset", "The new offset, of all partitions.", "OFFSET"),
    Option("shift-by", "How far to go forward, or back if negative.", "N"),
    Option(
        "to-datetime",
        "The new offsets are the first since this time, such as 2024-05-01T12:00:00.000+02:00, in "
        "UTC without the +02:00.",
        "TIME",
    ),
    Option("by-duration", "The same, so long ago: such as P1DT2H3M4S.", "DURATION"),
    Option("from-file", "The new offsets are in a file, as --export prints it.", "FILE"),
    Option(
        "timeout",
        "How long to wait for a coordinator that is not ready (5000).",
        "MILLISECONDS",
    ),
)


def check(given: Given) -> None:
    """Refuse what does not go together."""
    actions = [action for action in ACTIONS if given.has(action)]
    if len(actions) != 1:
        names = ", ".join(f"--{action}" for action in ACTIONS)
        raise Misused(f"Command must include exactly one action: {names}")
    (action,) = actions
    _check_actions(given, action)
    if action == "validate-regex":
        return
    given.needs("bootstrap-server")
    if action in ("describe", "delete", "reset-offsets") and not any(map(given.has, WHICH)):
        raise Misused(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if action == "delete" and given.has("topic"):
        raise Misused(
            "The consumer does not support topic-specific offset deletion from a consumer group"
        )
    if action == "delete-offsets" and not (given.has("group") and given.has("topic")):
        raise Misused("Option [delete-offsets] takes the following options: [group], [topic]")
    if action == "delete-offsets":
        given.text("group")
    if action == "reset-offsets":
        _check_reset(given)
    given.excludes("group", ("all-groups", "list"))
    given.excludes("topic", ("list", "describe"))
    _check_values(given, action)


def listed(text: str | None) -> list[str]:
    """What has commas between; none if nothing is given."""
    return [part.strip() for part in (text or "").split(",")] if text else []


def timeout_s(given: Given) -> float:
    """The value of --timeout in seconds."""
    number = number_of(given, "timeout")
    return 5.0 if number is None else number / 1000


def _check_actions(given: Given, action: str) -> None:
    """Misused where an option belongs to another action."""
    for name, allowed in (
        *((name, ("describe",)) for name in ("members", "offsets", "verbose")),
        ("state", ("describe", "list")),
        ("type", ("list",)),
    ):
        if given.has(name) and action not in allowed:
            raise Misused(f"--{name} goes with --{' or --'.join(allowed)} only")


def _check_reset(given: Given) -> None:
    if given.has("dry-run") and given.has("execute"):
        raise Misused("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    for scenario in SCENARIOS:
        given.excludes(scenario, (other for other in SCENARIOS if other != scenario))


def _check_values(given: Given, action: str) -> None:
    if action == "describe":
        if sum(map(given.has, PARTS)) > 1:
            raise Misused(
                "Option [describe] takes at most one of these options: [members], [offsets], "
                "[state]"
            )
        if given.text("state") is not None:
            raise Misused("Option [describe] does not take a value for [state]")
    for name, noun, allowed in (("state", "state", STATES), ("type", "types", TYPES)):
        text = given.text(name)
        if not {value.lower() for value in listed(text)} <= set(allowed):
            raise Misused(f"Invalid {noun} list '{text}'. Valid {noun} are: {', '.join(allowed)}")

"""`kavka reassign-partitions`: as Apache Kafka's kafka-reassign-partitions, option by option."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.java_order import number_order, partition_order
from kavka.tools.admin.options import COMMON, Given, Option
from kavka.tools.admin.printing import PROGRAM_FORMS, joined, plural, print_csv
from kavka.tools.admin.reassignment import states, throttles
from kavka.tools.admin.reassignment.placement import place
from kavka.tools.admin.reassignment.plans import (
    Assignment,
    Directories,
    check_executable,
    check_numbers,
    document,
    name_of,
    names_of,
    read_brokers,
    read_plan,
    read_topics,
    written,
)
from kavka.tools.admin.reassignment.requests import (
    assignment_of,
    current_log_dirs,
    describe_partitions,
    describe_topics,
    move,
    reassign,
    reassignments,
)
from kavka.tools.admin.topic_names import check_topic_name

TIMEOUT_MS: Final = 10_000
RETRY_S: Final = 0.1
NO_LIMIT: Final = -1
SERVER, CONTROLLER = "bootstrap-server", "bootstrap-controller"
PLAN: Final = "reassignment-json-file"
MOVE_THROTTLE: Final = "replica-alter-log-dirs-throttle"
KEEPS_FACTOR: Final = "disallow-replication-factor-change"

NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": (PLAN,),
    "verify": (PLAN,),
    "cancel": (PLAN,),
    "list": (),
}
"""The actions, and the options that they need."""

ALLOWED: Final[Mapping[str, Sequence[str]]] = {
    "generate": (SERVER, "disable-rack-aware"),
    "execute": (SERVER, "additional", "throttle", MOVE_THROTTLE, "timeout", KEEPS_FACTOR),
    "verify": (SERVER, "preserve-throttles"),
    "cancel": (SERVER, CONTROLLER, "preserve-throttles", "timeout"),
    "list": (SERVER, CONTROLLER),
}

OPTIONS: Final = (
    Option("generate", "Print how the replicas of topics could be placed on brokers."),
    Option("execute", "Begin a reassignment, the one in --reassignment-json-file.", text_only=True),
    Option(
        "verify",
        "Print how far that reassignment is. When nothing moves any more its throttles are "
        "removed.",
    ),
    Option("cancel", "Cancel it: the replicas stay, or go back, where they were.", text_only=True),
    Option("list", "Print all reassignments that go on."),
    Option(
        PLAN,
        'What to move where: {"version": 1, "partitions": [{"topic": "orders", "partition": 0, '
        '"replicas": [1, 2], "log_dirs": ["any", "/data"]}]}. The first replica is the preferred '
        'leader. "log_dirs" may be left out; a directory is given by its absolute path.',
        "FILE",
    ),
    Option(
        "topics-to-move-json-file",
        'Topics for --generate: {"version": 1, "topics": [{"topic": "orders"}]}.',
        "FILE",
    ),
    Option("broker-list", "The brokers that --generate may use.", "ID,.."),
    Option("disable-rack-aware", "Place replicas without looking at brokers' racks."),
    Option(
        "throttle",
        "Bytes a second that brokers send and receive at most while replicas move; at least 1 KB. "
        "Can be changed by --execute with --additional and the same file.",
        "BYTES",
        is_number=True,
        bits=64,
    ),
    Option(
        MOVE_THROTTLE,
        "The same for moves between log directories of one broker.",
        "BYTES",
        is_number=True,
        bits=64,
    ),
    Option(
        "timeout",
        "Milliseconds to wait until moves to log directories can begin; 10000 by default.",
        "MS",
        is_number=True,
        bits=64,
    ),
    Option("additional", "Begin it although other reassignments go on."),
    Option("preserve-throttles", "Leave throttles as they are."),
    Option(KEEPS_FACTOR, "Refuse to change how many replicas a partition has."),
    Option(CONTROLLER, "Not supported: ask the brokers, with --bootstrap-server.", "HOST:PORT,.."),
)


class Refused(Exception):
    """Apache Kafka's tool says it on standard output."""


def check(given: Given) -> None:
    """Refuse what does not go together, with Apache Kafka's words."""
    actions = [action for action in NEEDED if given.has(action)]
    if len(actions) != 1:
        raise Misused(
            "Command must include exactly one action: "
            + ", ".join(f"--{action}" for action in NEEDED)
        )
    if given.has(SERVER) and given.has(CONTROLLER):
        raise Misused(f"Please don't specify both --{SERVER} and --{CONTROLLER}")
    if not given.has(SERVER) and not given.has(CONTROLLER):
        raise Misused(f"Please specify either --{SERVER} or --{CONTROLLER}")
    (action,) = actions
    for name in given.names:
        given.text(name)
    given.needs(*NEEDED[action])
    allowed = {action, *NEEDED[action], *ALLOWED[action], *(option.name for option in COMMON)}
    for name in given.names:
        if name not in allowed:
            raise Misused(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    if given.has(CONTROLLER):
        raise Misused(
            f"--{CONTROLLER} is for Apache Kafka's controllers, which this command can't ask: "
            f"name brokers by --{SERVER}, any of them will do"
        )


async def run(cluster: ClusterClient, given: Given) -> int:
    """Do the one action."""
    actions: Mapping[str, Callable[[ClusterClient, Given], Awaitable[None]]] = {
        "generate": _generate,
        "execute": _execute,
        "verify": _verify,
        "cancel": _cancel,
        "list": _list,
    }
    (action,) = (option for option in actions if given.has(option))
    try:
        await actions[action](cluster, given)
    except Refused as refused:
        print(refused)
        return 1
    return 0


TOOL: Final = Tool(
    "reassign-partitions",
    "Move partitions to other brokers, or to other log directories.",
    OPTIONS,
    check,
    run,
)


async def _generate(cluster: ClusterClient, given: Given) -> None:
    text = _read(given, "topics-to-move-json-file")
    brokers, names = read_brokers(given.text("broker-list") or ""), read_topics(text)
    topics = await describe_topics(cluster, names) if names else {}
    partitions = {
        (topic, partition.partition_index): partition
        for topic in topics
        for partition in topics[topic]
    }
    directories = await current_log_dirs(cluster, partitions)
    racks = _racks(cluster, brokers, is_aware=not given.has("disable-rack-aware"))
    factors: dict[str, int] = {}
    for topic, number in partition_order(partitions):
        factors.setdefault(topic, len(partitions[topic, number].replica_nodes))
    proposed: dict[tuple[str, int], Sequence[int]] = {}
    for topic, factor in factors.items():
        placed = place(racks, len(topics[topic]), factor, cluster.seams.random)
        proposed |= {(topic, number): replicas for number, replicas in enumerate(placed)}
    _print_proposal(assignment_of(partitions), directories, proposed, given.text("output"))


async def _execute(cluster: ClusterClient, given: Given) -> None:
    plan = read_plan(_read(given, PLAN))
    check_executable(plan)
    assignment = plan.assignment
    ongoing = await reassignments(cluster)
    if ongoing and not given.has("additional"):
        raise Refused(
            "Cannot execute because there is an existing partition assignment.  Use --additional "
            "to override this and create a new partition assignment in addition to the existing "
            "one. The --additional flag can also be used to change the throttle by resubmitting "
            "the current reassignment."
        )
    live = {broker.node_id for broker in cluster.brokers}
    for broker in number_order(
        broker_id for replicas in assignment.values() for broker_id in replicas
    ):
        if broker not in live:
            raise Failed(f"Unknown broker id {broker}")
    partitions = await describe_partitions(cluster, assignment)
    current = assignment_of(partitions)
    directories = await current_log_dirs(cluster, partitions)
    print(f"Current partition replica assignment\n\n{written(document(current, directories))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    rate, move_rate = _limit(given, "throttle"), _limit(given, MOVE_THROTTLE)
    if rate >= 0 or move_rate >= 0:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to "
            "ensure the throttle is removed."
        )
    if rate >= 0:
        moving = throttles.moves(ongoing, assignment, current)
        await throttles.limit_replication(cluster, moving, rate)
    if move_rate >= 0:
        brokers = (replica.broker for replica in plan.directories)
        await throttles.limit_moves(cluster, brokers, move_rate)
    errors = await reassign(cluster, assignment, may_change_factor=not given.has(KEEPS_FACTOR))
    if errors:
        raise Refused("\n".join(["Error reassigning partition(s):", *_reasons(errors)]))
    print(
        f"Successfully started partition reassignment{plural(assignment)} for "
        f"{names_of(assignment)}"
    )
    if plan.directories:
        await _move(cluster, plan.directories, given)


async def _verify(cluster: ClusterClient, given: Given) -> None:
    plan = read_plan(_read(given, PLAN))
    for topic, _ in plan.assignment:
        check_topic_name(topic)
    check_numbers(plan)
    ongoing = await reassignments(cluster)
    partitions = await states.partition_states(cluster, plan, ongoing)
    form = given.text("output")
    is_text = form not in PROGRAM_FORMS
    if is_text:
        print("\n".join(states.partition_lines(partitions)))
    moves = await states.move_states(cluster, plan.directories)
    if is_text:
        print("\n".join(states.move_lines(moves)))
    if form == "json":
        print(written(states.documents(partitions, moves)))
    elif form == "csv":
        print_csv(states.COLUMNS, states.rows(partitions, moves))
    are_done = not ongoing and all(state.is_done for state in moves.values())
    if are_done and not given.has("preserve-throttles"):
        await throttles.clear(cluster, plan, silent=not is_text)


async def _cancel(cluster: ClusterClient, given: Given) -> None:
    plan = read_plan(_read(given, PLAN))
    check_numbers(plan)
    ongoing = await reassignments(cluster, plan.assignment)
    if ongoing:
        errors = await reassign(cluster, dict.fromkeys(ongoing))
        if errors:
            first = f"Error cancelling partition reassignment{plural(errors)} for:"
            raise Refused("\n".join([first, *_reasons(errors)]))
        print(
            f"Successfully cancelled partition reassignment{plural(ongoing)} for: "
            f"{names_of(ongoing)}"
        )
    else:
        print("None of the specified partition reassignments are active.")
    moves = await states.move_states(cluster, plan.directories)
    back = {
        replica: state.current
        for replica, state in moves.items()
        if state.current is not None and state.future is not None
    }
    if back:
        await _move(cluster, back, given)
    else:
        print("None of the specified partition moves are active.", end="")
    if not given.has("preserve-throttles"):
        await throttles.clear(cluster, plan)


async def _list(cluster: ClusterClient, given: Given) -> None:
    found = sorted((await reassignments(cluster)).items())
    columns = ("topic", "partition", "replicas", "adding", "removing")
    if given.text("output") == "json":
        shown = [
            dict(zip(columns, (*topic_partition, *map(list, reassignment)), strict=True))
            for topic_partition, reassignment in found
        ]
        print(written({"reassignments": shown}))
    elif given.text("output") == "csv":
        print_csv(
            columns,
            (
                (*topic_partition, *map(joined, reassignment))
                for topic_partition, reassignment in found
            ),
        )
    elif not found:
        print("No partition reassignments found.")
    else:
        print("Current partition reassignments:")
        for topic_partition, reassignment in found:
            adding = f" adding: {joined(reassignment.adding)}." if reassignment.adding else ""
            removing = (
                f" removing: {joined(reassignment.removing)}." if reassignment.removing else ""
            )
            print(
                f"{name_of(topic_partition)}: replicas: {joined(reassignment.replicas)}."
                f"{adding}{removing}"
            )


async def _move(cluster: ClusterClient, targets: Directories, given: Given) -> None:
    """Have replicas move to log directories, once they are on their brokers."""
    clock = cluster.seams.clock
    timeout_ms = given.number("timeout")
    limit_s = clock.monotonic_s() + (TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
    left = dict(targets)
    while True:
        for replica in await move(cluster, left):
            print(
                f"Successfully started moving log directory to {left.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker} "
            )
        if not left:
            return
        if clock.monotonic_s() >= limit_s:
            raise Refused(
                f"Timed out before log directory move{plural(left)} could be started for: "
                + ",".join(map(str, sorted(left)))
            )
        await cluster.seams.tasks.sleep(RETRY_S)


def _racks(
    cluster: ClusterClient, brokers: Sequence[int], *, is_aware: bool
) -> dict[int, str | None]:
    """Those of the live ones; Failed if some have a rack and others none."""
    racks = {
        broker.node_id: broker.rack if is_aware else None
        for broker in cluster.brokers
        if broker.node_id in brokers
    }
    if len({rack is None for rack in racks.values()}) > 1:
        raise Failed(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    return racks


def _print_proposal(
    current: Assignment, directories: Directories, proposed: Assignment, form: str | None
) -> None:
    plans = {"current": document(current, directories), "proposed": document(proposed, {})}
    if form == "json":
        print(written(plans))
    elif form == "csv":
        print_csv(
            ("plan", "topic", "partition", "replicas", "logDirs"),
            (
                (
                    name,
                    partition["topic"],
                    partition["partition"],
                    joined(partition["replicas"]),
                    ",".join(partition["log_dirs"]),
                )
                for name, plan in plans.items()
                for partition in plan["partitions"]
            ),
        )
    else:
        print(f"Current partition replica assignment\n{written(plans['current'])}\n")
        print(f"Proposed partition reassignment configuration\n{written(plans['proposed'])}")


def _read(given: Given, name: str) -> str:
    path = given.text(name) or ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failed(f"{path} can't be read: it is no UTF-8") from error


def _limit(given: Given, name: str) -> int:
    number = given.number(name)
    return NO_LIMIT if number is None else number


def _reasons(errors: Mapping[tuple[str, int], str]) -> list[str]:
    return [
        f"{name_of(topic_partition)}: {errors[topic_partition]}"
        for topic_partition in sorted(errors)
    ]

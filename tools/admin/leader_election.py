"""`kavka leader-election`: as Apache Kafka's kafka-leader-election, option by option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.java_errors import Refused, message_of
from kavka.tools.admin.java_order import partition_order
from kavka.tools.admin.leaders import (
    TopicPartition,
    by_topic,
    partitions_of,
    read_document,
    refuse_doubles,
)
from kavka.tools.admin.options import Given, Option
from kavka.tools.admin.printing import PROGRAM_FORMS, print_rows
from kavka.wire.apis import elect_leaders
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

TIMEOUT_MS: Final = 15_000
TYPES: Final = {"preferred": elect_leaders.PREFERRED, "unclean": elect_leaders.UNCLEAN}
COLUMNS: Final = ("topic", "partition", "result", "error")
FILE: Final = "path-to-json-file"
ALL: Final = "all-topic-partitions"
SCOPES: Final = ("topic", ALL, FILE)

OPTIONS: Final = (
    Option(
        "election-type",
        "preferred: where another replica leads; unclean: where none leads, by any live replica.",
        "TYPE",
    ),
    Option("topic", "A topic, with --partition.", "TOPIC"),
    Option("partition", "A partition of --topic.", "N", is_number=True),
    Option(ALL, "All partitions that need it."),
    Option(
        FILE,
        'A file of JSON with partitions: {"partitions": [{"topic": "foo", "partition": 1}]}.',
        "FILE",
    ),
    Option("admin.config", "The same as --command-config, an older name.", "FILE"),
)


@message
class RequestedTopic:
    topic: str
    partitions: Sequence[int]


@message
class ElectLeadersRequest:
    """`topic_partitions`: all if None."""

    election_type: int
    topic_partitions: Sequence[RequestedTopic] | None
    timeout_ms: int = TIMEOUT_MS


Outcome = tuple[int, str | None]
"""Error code and message."""


def check(given: Given) -> None:
    """Refuse what does not go together."""
    missing = [name for name in ("bootstrap-server", "election-type") if not given.has(name)]
    if missing:
        raise Misused(f"Missing required option(s): {', '.join(missing)}")
    if sum(given.has(name) for name in SCOPES) != 1:
        raise Misused(f"One and only one of the following options is required: {', '.join(SCOPES)}")
    if given.has("topic") and not given.has("partition"):
        raise Misused("Missing required option(s): partition")
    if given.has("partition") and not given.has("topic"):
        raise Misused("Option partition is only allowed if topic is used")
    if (given.text("election-type") or "").lower() not in TYPES:
        raise Misused(f"--election-type is one of {', '.join(TYPES)}")
    for name in ("topic", "partition", FILE):
        given.text(name)


async def run(cluster: ClusterClient, given: Given) -> int:
    """Hold the elections, and print what became of them; 1 if one has failed."""
    kind = (given.text("election-type") or "").lower()
    partitions = _partitions(given)
    topics = (
        None
        if partitions is None
        else [RequestedTopic(*item) for item in by_topic(partitions).items()]
    )
    response = await cluster.ask_controller(
        elect_leaders.API,
        ElectLeadersRequest(TYPES[kind], topics),
        lambda response: [response.error_code],
    )
    if response.error_code:
        _refuse(ErrorCode(response.error_code))
    found = {
        (topic.topic, partition.partition_id): (partition.error_code, partition.error_message)
        for topic in response.replica_election_results
        for partition in topic.partition_result
    }
    results = {
        topic_partition: found[topic_partition] for topic_partition in partition_order(found)
    }
    if given.text("output") in PROGRAM_FORMS:
        _print_for_programs(results, given.text("output"))
    else:
        _print_text(results, kind.upper())
    failed = sum(_result(code) == "failed" for code, _ in results.values())
    if failed:
        raise Failed(f"{failed} replica(s) could not be elected")
    return 0


TOOL: Final = Tool(
    "leader-election",
    "Let preferred replicas lead, or any where none leads.",
    OPTIONS,
    check,
    run,
    old_config="admin.config",
)


def _partitions(given: Given) -> list[TopicPartition] | None:
    topic, path = given.text("topic"), given.text(FILE)
    if topic is not None:
        return [(topic, given.number("partition") or 0)]
    if path is None:
        return None
    partitions = [
        (entry["topic"], entry["partition"]) for entry in partitions_of(path, read_document(path))
    ]
    refuse_doubles(path, partitions)
    return partitions


def _refuse(code: ErrorCode) -> None:
    """Failed, after the line that Apache Kafka prints for some."""
    lines = {
        ErrorCode.REQUEST_TIMED_OUT: "Timeout waiting for election results",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized to perform leader election",
    }
    if code in lines:
        print(lines[code])
    raise Failed(f"no election was held: {message_of(code)}")


def _result(code: int) -> str:
    if not code:
        return "elected"
    return "notNeeded" if code == ErrorCode.ELECTION_NOT_NEEDED else "failed"


def _print_text(results: Mapping[TopicPartition, Outcome], kind: str) -> None:
    for result, said in (
        ("elected", f"Successfully completed leader election ({kind}) for partitions"),
        ("notNeeded", "Valid replica already elected for partitions"),
    ):
        names = [
            f"{topic}-{partition}"
            for (topic, partition), (code, _) in results.items()
            if _result(code) == result
        ]
        if names:
            print(said, ", ".join(names))
    failed = [
        topic_partition
        for topic_partition, (code, _) in results.items()
        if _result(code) == "failed"
    ]
    for topic, partition in partition_order(failed):
        print(
            f"Error completing leader election ({kind}) for partition: {topic}-{partition}: "
            f"{Refused(*results[topic, partition]).described}"
        )


def _print_for_programs(results: Mapping[TopicPartition, Outcome], form: str | None) -> None:
    rows = [
        (
            *topic_partition,
            _result(code),
            str(Refused(code, text)) if _result(code) == "failed" else None,
        )
        for topic_partition, (code, text) in results.items()
    ]
    print_rows("partitions", COLUMNS, rows, form)

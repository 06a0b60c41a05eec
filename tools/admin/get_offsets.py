"""`kavka get-offsets`: as Apache Kafka's kafka-get-offsets, option by option."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.options import Given, Option, is_whole
from kavka.tools.admin.partition_offsets import ask_offsets
from kavka.tools.admin.printing import PROGRAM_FORMS, print_rows
from kavka.tools.admin.topic_names import ANY, Takes, any_rule, name_pattern
from kavka.wire.apis import list_offsets
from kavka.wire.errors import ErrorCode

TIMES: Final[Mapping[str, int]] = {
    "latest": list_offsets.LATEST,
    "earliest": list_offsets.EARLIEST,
    "max-timestamp": list_offsets.MAX_TIMESTAMP,
    "earliest-local": list_offsets.EARLIEST_LOCAL,
    "latest-tiered": list_offsets.LATEST_TIERED,
    "earliest-pending-upload": list_offsets.EARLIEST_PENDING_UPLOAD,
}

OPTIONS: Final = (
    Option(
        "topic-partitions",
        "Patterns of partitions with commas between: TOPIC, TOPIC:N, TOPIC:N-M (without M), "
        "TOPIC:N- and TOPIC:-M, where TOPIC is a regular expression or left out.",
        "PATTERN,..",
    ),
    Option("topic", "A regular expression for topics; all if left out.", "TOPIC"),
    Option("partitions", "Numbers of partitions; all if left out.", "N,.."),
    Option(
        "time",
        "A time in milliseconds, for the first record from then on; or latest (-1), earliest (-2), "
        "max-timestamp (-3), earliest-local (-4), latest-tiered (-5),"
        " earliest-pending-upload (-6).",
        "TIME",
    ),
    Option("exclude-internal-topics", "Leave internal topics out."),
)


def check(given: Given) -> None:
    """Refuse what does not go together."""
    given.needs("bootstrap-server")
    if given.has("topic-partitions") and (given.has("topic") or given.has("partitions")):
        raise Misused("--topic-partitions cannot be used with --topic or --partitions")
    _time(given)
    _takes(given)


async def run(cluster: ClusterClient, given: Given) -> int:
    """Print TOPIC:PARTITION:OFFSET for each partition that has such an offset."""
    takes = _takes(given)
    leaders = {
        (topic.name or "", partition.partition_index): partition.leader_id
        for topic in await cluster.topics(with_internal=not given.has("exclude-internal-topics"))
        for partition in topic.partitions
        if takes(topic.name or "", partition.partition_index)
    }
    if not leaders:
        raise Failed(
            "Error occurred: Could not match any topic-partitions with the specified filters"
        )
    led = {topic_partition: leader for topic_partition, leader in leaders.items() if leader >= 0}
    for topic_partition in leaders:
        if topic_partition not in led:
            _skip(topic_partition, "it has no leader now")
    offsets = {}
    for topic_partition, answer in (await ask_offsets(cluster, led, _time(given))).items():
        if answer.error_code:
            _skip(topic_partition, ErrorCode(answer.error_code).name)
        elif answer.offset >= 0:
            offsets[topic_partition] = answer.offset
    _print(sorted(offsets.items(), key=lambda item: f"{item[0][0]}-{item[0][1]}"), given)
    return 0


TOOL: Final = Tool("get-offsets", "Print offsets of partitions.", OPTIONS, check, run)


def _skip(topic_partition: TopicPartition, why: str) -> None:
    topic, partition = topic_partition
    print(
        f"Skip getting offsets for topic-partition {topic}-{partition} due to error: {why}",
        file=sys.stderr,
    )


def _print(offsets: Iterable[tuple[TopicPartition, int]], given: Given) -> None:
    rows = [(topic, partition, offset) for (topic, partition), offset in offsets]
    columns = ("topic", "partition", "offset")
    form = given.text("output")
    if form in PROGRAM_FORMS:
        print_rows("partitions", columns, rows, form)
    else:
        for row in rows:
            print(*row, sep=":")


def _time(given: Given) -> int:
    text = given.text("time") or "latest"
    if text in TIMES:
        return TIMES[text]
    if not is_whole(text, 64):
        raise Misused(f"Malformed time argument {text}: it is milliseconds, or {', '.join(TIMES)}")
    return int(text)


def _takes(given: Given) -> Takes:
    rules = given.text("topic-partitions")
    if rules is not None:
        return any_rule(rules)
    pattern, text = name_pattern(given.text("topic") or ANY), given.text("partitions")
    if text is not None and not text.replace(",", "").isdecimal() and text:
        raise Misused(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            + text
        )
    numbers = {int(number) for number in (text or "").split(",") if number}
    return lambda topic, partition: (
        pattern.fullmatch(topic) is not None and (not numbers or partition in numbers)
    )

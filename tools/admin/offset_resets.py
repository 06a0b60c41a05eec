"""`kavka consumer-groups --reset-offsets`: which offsets a group is to have."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.group_reports import print_error
from kavka.tools.admin.group_requests import committed_offsets
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.java_order import partition_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.options import Given, is_whole
from kavka.tools.admin.partition_offsets import leaders_of, offsets_at
from kavka.tools.admin.times import duration_ms, time_ms
from kavka.wire.apis import list_offsets
from kavka.wire.errors import ErrorCode

SCENARIOS: Final = (
    *("to-offset", "to-earliest", "to-latest", "shift-by", "to-datetime", "by-duration"),
    *("from-file", "to-current"),
)
"""In the order in which Apache Kafka looks for them."""

CSV_SAFE_FROM: Final = "-"
CSV_PLAIN_MAX: Final = 24
"""Apache Kafka quotes what is longer, and what has a character below `CSV_SAFE_FROM`."""


def named_partitions(text: str) -> list[TopicPartition]:
    """The partitions of TOPIC:N,N. Misused."""
    parts = text.rstrip(":").split(":")
    if len(parts) != 2:
        raise Misused(f"Invalid topic arg '{text}', expected topic name and partitions")
    topic, numbers = parts
    for number in numbers.rstrip(",").split(","):
        if not is_whole(number, 32):
            raise Misused(f"Invalid partition '{number}' specified in topic arg '{text}''")
    return [(topic, int(number)) for number in numbers.rstrip(",").split(",")]


def number_of(given: Given, name: str) -> int | None:
    """An option's value. Failed if it is no number: Apache Kafka looks only when it needs it."""
    text = given.text(name)
    if text is None:
        return None
    if not is_whole(text, 64):
        raise Failed(f"Cannot parse argument '{text}' of option {name}")
    return int(text)


class Resets:
    """Finds the new offsets of groups without members."""

    def __init__(self, cluster: ClusterClient, given: Given, within_s: float) -> None:
        self._cluster = cluster
        self._given = given
        self._within_s = within_s

    async def plan(self, group_id: str) -> dict[TopicPartition, int]:
        """The new offset of each partition, in Java's order. Misused, Refused, Failed."""
        partitions = await self._partitions(group_id)
        await self._check(partitions)
        scenario = next((option for option in SCENARIOS if self._given.has(option)), None)
        if scenario is None:
            names = ", ".join(f"--{option}" for option in SCENARIOS)
            raise Misused(f"Option '[reset-offsets]' requires one of these: {names}")
        text = self._given.text(scenario) or ""
        if scenario == "from-file":
            found = await self._from_file(group_id, text)
        elif scenario in ("to-current", "shift-by"):
            found = await self._from_current(
                group_id, partitions, number_of(self._given, "shift-by")
            )
        elif scenario == "to-offset":
            found = await self._within_range(
                dict.fromkeys(partitions, number_of(self._given, scenario) or 0)
            )
        else:
            found = await self._for_time(partitions, self._time(scenario, text))
        return {
            topic_partition: found[topic_partition] for topic_partition in partition_order(found)
        }

    async def _partitions(self, group_id: str) -> Sequence[TopicPartition]:
        """Those that the command line speaks of."""
        if self._given.has("all-topics"):
            return list(await self._committed(group_id))
        texts = self._given.texts("topic")
        if not texts and not self._given.has("from-file"):
            raise Misused("One of the reset scopes should be defined: --all-topics, --topic")
        named = [
            topic_partition
            for text in texts
            if ":" in text
            for topic_partition in named_partitions(text)
        ]
        whole = await leaders_of(self._cluster, (text for text in texts if ":" not in text))
        return [*named, *whole]

    async def _check(self, partitions: Iterable[TopicPartition]) -> None:
        """Failed unless all are there and have leaders."""
        try:
            leaders = await leaders_of(self._cluster, (topic for topic, _ in partitions))
        except Refused as refused:
            raise Failed(refused.in_future) from refused
        if missing := [
            topic_partition for topic_partition in partitions if topic_partition not in leaders
        ]:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f'The partitions "{_names(missing)}" do not exist',
            )
        if idle := [
            topic_partition for topic_partition in partitions if leaders[topic_partition] < 0
        ]:
            raise Refused(
                ErrorCode.LEADER_NOT_AVAILABLE, f'The partitions "{_names(idle)}" have no leader'
            )

    def _time(self, scenario: str, text: str) -> int:
        if scenario == "to-datetime":
            return time_ms(text)
        if scenario == "by-duration":
            return self._cluster.now_ms() - duration_ms(text)
        return list_offsets.EARLIEST if scenario == "to-earliest" else list_offsets.LATEST

    async def _for_time(
        self, partitions: Sequence[TopicPartition], time: int
    ) -> dict[TopicPartition, int]:
        found = await self._offsets(partitions, time)
        late = [
            topic_partition
            for topic_partition in partition_order(partitions)
            if found[topic_partition] < 0
        ]
        for topic, partition in late:
            print(
                f"\nWarn: Partition {partition} from topic {topic} is empty. "
                "Falling back to latest known offset."
            )
        return found | await self._offsets(late, list_offsets.LATEST)

    async def _from_current(
        self, group_id: str, partitions: Sequence[TopicPartition], shift: int | None
    ) -> dict[TopicPartition, int]:
        committed = await self._committed(group_id)
        new = [
            topic_partition for topic_partition in partitions if topic_partition not in committed
        ]
        if shift is None:
            kept = {
                topic_partition: committed[topic_partition]
                for topic_partition in partitions
                if topic_partition in committed
            }
            return kept | await self._offsets(new, list_offsets.LATEST)
        if new:
            topic, partition = new[0]
            raise Misused(
                f"Cannot shift offset for partition {topic}-{partition} since there is no current "
                "committed offset"
            )
        return await self._within_range(
            {topic_partition: committed[topic_partition] + shift for topic_partition in partitions}
        )

    async def _from_file(self, group_id: str, path: str) -> dict[TopicPartition, int]:
        plans = read_plans(path, self._given.texts("group"))
        if group_id not in plans:
            print_error(f"No reset plan for group {group_id} found")
            return {}
        return await self._within_range(plans[group_id])

    async def _within_range(
        self, targets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The nearest offsets that there are."""
        first = await self._offsets(targets, list_offsets.EARLIEST)
        end = await self._offsets(targets, list_offsets.LATEST)
        found = {
            topic_partition: min(
                max(targets[topic_partition], first[topic_partition]), end[topic_partition]
            )
            for topic_partition in targets
        }
        for (topic, partition), offset in found.items():
            target = targets[topic, partition]
            if target != offset:
                which = "higher than latest" if target > offset else "lower than earliest"
                print(
                    f"WARN New offset ({target}) is {which} offset for topic partition "
                    f"{topic}-{partition}. Value will be set to {offset}",
                    file=sys.stderr,
                )
        return found

    async def _offsets(
        self, partitions: Iterable[TopicPartition], time: int
    ) -> dict[TopicPartition, int]:
        try:
            return await offsets_at(self._cluster, partitions, time, self._within_s)
        except Refused as refused:
            raise Failed(refused.in_future) from refused

    async def _committed(self, group_id: str) -> dict[TopicPartition, int]:
        try:
            found = await committed_offsets(self._cluster, group_id, self._within_s)
        except Refused as refused:
            raise Failed(refused.in_future) from refused
        return {topic_partition: committed.offset for topic_partition, committed in found.items()}


def read_plans(path: str, group_ids: Sequence[str]) -> Mapping[str, Mapping[TopicPartition, int]]:
    """The offsets in a file by group: TOPIC,PARTITION,OFFSET for the one group of the command line,
    or GROUP,TOPIC,PARTITION,OFFSET. Failed."""
    plans: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Failed(f"java.io.IOException: Unable to read file {path}") from error
    whole = len(group_ids) == 1 and rows[:1] != [] and len(rows[0]) == 3
    for number, row in enumerate(rows, 1):
        group_id, *rest = [group_ids[0], *row] if whole else row or [""]
        if len(rest) != 3 or not (is_whole(rest[1].strip(), 32) and is_whole(rest[2].strip(), 64)):
            form = "TOPIC,PARTITION,OFFSET" if whole else "GROUP,TOPIC,PARTITION,OFFSET"
            raise Failed(f"{path}: line {number} is not {form}")
        topic, partition, offset = rest
        plans[group_id][topic, int(partition)] = int(offset)
    return plans


def exported(plans: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> str:
    """Plans as a file that `read_plans` reads."""
    lines = []
    for group_id, plan in plans.items():
        group = f"{_quoted(group_id)}," if with_group else ""
        for (topic, number), offset in plan.items():
            lines.append(f"{group}{_quoted(topic)},{number},{offset}\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    if len(text) <= CSV_PLAIN_MAX and all(character >= CSV_SAFE_FROM for character in text):
        return text
    escaped = text.replace('"', '""')
    return f'"{escaped}"'


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions)

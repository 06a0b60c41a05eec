"""`kavka replica-verification`: as Apache Kafka's kafka-replica-verification, option by option.

It fetches from every live replica, followers too, and compares what they send. It goes on until
Ctrl-C, or until offsets differ; with --once until all has been compared that was there at first.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.java_order import partition_order
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.options import LINES, Given, Option
from kavka.tools.admin.printing import joined
from kavka.tools.admin.replica_comparison import OFFSET, Difference, Fetched, compare
from kavka.tools.admin.topic_names import ANY, name_pattern
from kavka.tools.progress import Status, progress
from kavka.wire.apis import fetch, list_offsets
from kavka.wire.apis.fetch import FetchedPartition, ReplicaState
from kavka.wire.apis.list_offsets import ListOffsetsRequest, RequestedPartition, RequestedTopic
from kavka.wire.apis.metadata import PartitionResponse, TopicResponse
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

DEBUGGING: Final = -2
"""As replica id: a reader whom followers answer as well."""

NO_EPOCH: Final = -1
CONSUMER: Final = -1
ANY_BYTES: Final = 2**31 - 1
FETCH_BYTES: Final = 1 << 20
WAIT_MS: Final = 1_000
REPORT_MS: Final = 30_000
NO_ID: Final = UUID(int=0)
TIMEOUT_MS: Final = 60_000
PAUSE_S: Final = 0.5
"""With --once, after a replica could not be read."""

REFUSED_MS_MAX: Final = 30_000
"""How long a partition whose replicas are where they were may be unreadable: a replica may be new
there, or its broker may still be starting."""

OPTIONS: Final = (
    LINES,
    Option("broker-list", "The same as --bootstrap-server.", "HOST:PORT,.."),
    Option("topics-include", "A regular expression for topics; all if left out.", "TOPIC"),
    Option(
        "time",
        "From where to compare: milliseconds for the first record from then on, -1 for the end "
        "(the default), -2 for the beginning.",
        "TIME",
        is_number=True,
        bits=64,
    ),
    Option("fetch-size", "Bytes to fetch of each partition.", "BYTES", is_number=True),
    Option("max-wait-ms", "How long a fetch waits for records.", "MS", is_number=True),
    Option("report-interval-ms", "How often to report; 30000.", "MS", is_number=True, bits=64),
    Option(
        "once",
        "End when all has been compared that is there now, from the beginning unless --time says "
        "otherwise; with exit code 1 if replicas differ.",
    ),
)


@message
class FetchTopic:
    topic: str
    topic_id: UUID
    partitions: Sequence[FetchedPartition]


@message
class FetchRequest:
    """Without a session. Who asks stands in the one field or the other, by the version."""

    max_wait_ms: int
    topics: Sequence[FetchTopic]
    replica_id: int = DEBUGGING
    replica_state: ReplicaState = ReplicaState(DEBUGGING, NO_EPOCH)
    min_bytes: int = 1
    max_bytes: int = ANY_BYTES
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = fetch.NO_SESSION
    forgotten_topics_data: Sequence[Any] = ()
    rack_id: str = ""
    cluster_id: str | None = None


def check(given: Given) -> None:
    """Refuse what is not whole."""
    if not given.has("bootstrap-server"):
        given.needs("broker-list")
    time = given.number("time")
    if time is not None and time < list_offsets.EARLIEST:
        raise Misused("--time is -1 (the end), -2 (the beginning) or milliseconds")
    if (given.number("fetch-size") or 0) < 0:
        raise Misused("--fetch-size is no negative number: brokers would give no records for it")
    name_pattern(given.text("topics-include") or ANY)


async def run(cluster: ClusterClient, given: Given) -> int:
    """Compare, and report; 1 if replicas differ."""
    pattern = name_pattern(given.text("topics-include") or ANY)
    topics = [topic for topic in await cluster.topics() if pattern.fullmatch(topic.name or "")]
    if not topics:
        raise Failed("No topics found: --topics-include filters all out, or there are none")
    verification = _Verification(cluster, topics, given)
    return await verification.run()


TOOL: Final = Tool(
    "replica-verification",
    "Compare the replicas of partitions with each other.",
    OPTIONS,
    check,
    run,
    addresses=("bootstrap-server", "broker-list"),
)


class _Verification:
    """Goes through the logs of partitions, of all their replicas at the same pace."""

    def __init__(
        self, cluster: ClusterClient, topics: Sequence[TopicResponse], given: Given
    ) -> None:
        self._cluster = cluster
        self._form = given.text("output")
        self._is_once = given.has("once")
        time = given.number("time")
        default = list_offsets.EARLIEST if self._is_once else list_offsets.LATEST
        self._time = default if time is None else time
        self._bytes = _or(given.number("fetch-size"), FETCH_BYTES)
        self._wait_ms = _or(given.number("max-wait-ms"), WAIT_MS)
        self._report_ms = _or(given.number("report-interval-ms"), REPORT_MS)
        self._ids = {topic.name or "": topic.topic_id or NO_ID for topic in topics}
        partitions = {
            (topic.name or "", p.partition_index): p for topic in topics for p in topic.partitions
        }
        self._partitions = partition_order(partitions)
        self._leaders = {
            topic_partition: partitions[topic_partition].leader_id
            for topic_partition in self._partitions
        }
        live = {broker.node_id for broker in cluster.brokers}
        self._replicas = {
            topic_partition: [
                broker_id
                for broker_id in partitions[topic_partition].replica_nodes
                if broker_id in live
            ]
            for topic_partition in self._partitions
        }
        replicas = {broker_id for p in partitions.values() for broker_id in p.replica_nodes}
        self._missing = sorted(replicas - live)
        self._offsets: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        """With --once, how far to compare."""

        self._refused: dict[TopicPartition, str] = {}
        """Which could not be read the last time, and why."""

        self._refused_since_ms: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        """With --once: which can't be compared any more."""

        self._differing = 0

    async def run(self) -> int:
        """1 when offsets differ, or at the end of --once when anything did, or could not be
        compared."""
        self._offsets = await self._offsets_at(self._time, self._partitions)
        ends = await self._offsets_at(list_offsets.LATEST, self._partitions)
        self._ends = ends if self._is_once else {}
        for topic_partition in self._partitions:
            # where no record is that young
            self._offsets.setdefault(topic_partition, ends[topic_partition])
        self._say("verification process is started", {"event": "started"})
        if self._missing:
            text = f"replicas on brokers {joined(self._missing)}, which are not live, are left out"
            self._say(text, {"event": "missing", "brokers": self._missing})
        with self._progress() as step:
            return await self._go_on(step)

    @contextmanager
    def _progress(self) -> Iterator[Callable[[], None]]:
        """What is called after each round: shows how many records are compared; of how many, with
        --once, and else in how many partitions."""
        left = self._left()
        if not self._is_once:
            begin, partition_count = sum(self._offsets.values()), len(self._partitions)

            def text() -> str:
                count = sum(self._offsets.values()) - begin
                return f"{count:,} records of {partition_count} partitions compared"

            with closing(Status()) as status:
                yield lambda: status.show(text)
            return
        with progress("records compared", left) as step:

            def go_on() -> None:
                nonlocal left
                before, left = left, self._left()
                step(before - left)

            yield go_on

    def _left(self) -> int:
        """Offsets up to the ends, with --once."""
        return sum(
            max(0, end - self._offsets[topic_partition])
            for topic_partition, end in self._ends.items()
        )

    async def _go_on(self, step: Callable[[], None]) -> int:
        clock = self._cluster.seams.clock
        reported_ms = clock.now_ms()
        while True:
            fetched = await self._fetch()
            if self._compare(fetched):
                return 1
            step()
            if self._is_once:
                await self._look_again()
            is_done = self._is_once and not self._partitions_left()
            if clock.now_ms() - reported_ms > self._report_ms or is_done:
                self._report(fetched)
                reported_ms = clock.now_ms()
            if is_done:
                return 1 if self._differing or self._lost else 0

    def _partitions_left(self) -> list[TopicPartition]:
        """Without those that have been compared up to their ends, or can't be any more."""
        ends = self._ends
        return [
            topic_partition
            for topic_partition in self._partitions
            if topic_partition not in self._lost
            and (
                topic_partition not in ends
                or self._offsets[topic_partition] < ends[topic_partition]
            )
        ]

    async def _fetch(self) -> dict[TopicPartition, dict[int, Fetched]]:
        """What each replica sends; nothing of a broker that can't be asked now."""
        by_broker: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        self._refused = {}
        partitions = self._partitions_left()
        for topic_partition in partitions:
            for broker in self._replicas[topic_partition]:
                by_broker[broker].append(topic_partition)
        answers = await asyncio.gather(
            *(self._fetch_from(broker, some) for broker, some in by_broker.items())
        )
        found: dict[TopicPartition, dict[int, Fetched]] = {
            topic_partition: {} for topic_partition in partitions
        }
        for broker, answer in zip(by_broker, answers, strict=True):
            for topic_partition in by_broker[broker]:
                found[topic_partition][broker] = answer.get(
                    topic_partition, Fetched(memoryview(b""), -1)
                )
        return found

    async def _fetch_from(
        self, broker: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Fetched]:
        topics: defaultdict[str, list[FetchedPartition]] = defaultdict(list)
        for topic, number in partitions:
            offset = self._offsets[topic, number]
            topics[topic].append(
                FetchedPartition(number, NO_EPOCH, offset, NO_EPOCH, 0, self._bytes)
            )
        request = FetchRequest(
            self._wait_ms,
            [FetchTopic(name, self._ids[name], some) for name, some in topics.items()],
        )
        try:
            response = await self._cluster.ask_broker(broker, fetch.API, request)
        except Failed:
            if self._is_once:
                raise
            return {}
        names = {topic_id: name for name, topic_id in self._ids.items()}
        return await self._read(
            broker,
            {
                (topic.topic or names[topic.topic_id], partition.partition_index): partition
                for topic in response.responses
                for partition in topic.partitions
            },
        )

    async def _read(
        self, broker: int, answers: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, Fetched]:
        """Where the records asked for are deleted, go on behind them."""
        gone = [
            topic_partition
            for topic_partition, answer in answers.items()
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        ]
        if gone:
            starts = await self._offsets_at(list_offsets.EARLIEST, gone)
            for topic_partition, start in starts.items():
                self._offsets[topic_partition] = max(self._offsets[topic_partition], start)
        for topic_partition, answer in answers.items():
            if answer.error_code and topic_partition not in gone:
                self._refused[topic_partition] = (
                    f"broker {broker} answers {ErrorCode(answer.error_code).name}"
                )
        return {
            topic_partition: Fetched(memoryview(answer.records or b""), answer.high_watermark)
            for topic_partition, answer in answers.items()
            if not answer.error_code
        }

    async def _look_again(self) -> None:
        """Where the replicas are of what could not be read; nowhere, or nowhere else for long: it
        is given up."""
        if not self._refused:
            self._refused_since_ms = {}
            return
        await self._cluster.seams.tasks.sleep(PAUSE_S)
        now_ms = self._cluster.seams.clock.now_ms()
        known = self._refused_since_ms
        self._refused_since_ms = {
            topic_partition: known.get(topic_partition, now_ms) for topic_partition in self._refused
        }
        topics = await self._cluster.topics_named(topic for topic, _ in self._refused)
        live = {broker.node_id for broker in self._cluster.brokers}
        for topic_partition, why in self._refused.items():
            found = _partition(
                topics.get(topic_partition[0]), self._ids[topic_partition[0]], topic_partition[1]
            )
            if found is None:
                self._give_up(topic_partition, "it is deleted")
                continue
            replicas = [broker_id for broker_id in found.replica_nodes if broker_id in live]
            if not replicas:
                self._give_up(topic_partition, "none of its brokers is live")
            elif replicas != self._replicas[topic_partition]:
                self._move(topic_partition, replicas, found.leader_id)
            elif now_ms - self._refused_since_ms[topic_partition] > REFUSED_MS_MAX:
                self._give_up(topic_partition, why)

    def _move(self, topic_partition: TopicPartition, replicas: list[int], leader: int) -> None:
        self._replicas[topic_partition], self._leaders[topic_partition] = replicas, leader
        del self._refused_since_ms[topic_partition]
        topic, partition = topic_partition
        self._say(
            f"{topic}-{partition} is on brokers {joined(replicas)} now",
            {"event": "moved", "topic": topic, "partition": partition, "brokers": replicas},
        )

    def _give_up(self, topic_partition: TopicPartition, why: str) -> None:
        self._lost.add(topic_partition)
        topic, partition = topic_partition
        shown = {"topic": topic, "partition": partition, "offset": self._offsets[topic_partition]}
        self._say(
            f"{topic}-{partition} can't be compared any more, from offset "
            f"{self._offsets[topic_partition]} on: {why}",
            {"event": "lost", **shown, "why": why},
        )

    def _compare(self, fetched: Mapping[TopicPartition, Mapping[int, Fetched]]) -> bool:
        """Whether offsets differ somewhere, so that there is no way to go on."""
        for topic_partition, replicas in fetched.items():
            compared = compare(replicas, self._offsets[topic_partition])
            self._offsets[topic_partition] = compared.next_offset
            for difference in compared.differences:
                self._tell(topic_partition, difference)
            if any(difference.kind == OFFSET for difference in compared.differences):
                return True
        return False

    def _tell(self, topic_partition: TopicPartition, difference: Difference) -> None:
        self._differing += 1
        topic, partition = topic_partition
        shown = {
            "event": "difference",
            "topic": topic,
            "partition": partition,
            **difference._asdict(),
        }
        self._say(difference.sentence(f"{topic}-{partition}"), shown)

    def _report(self, fetched: Mapping[TopicPartition, Mapping[int, Fetched]]) -> None:
        lags = {
            topic_partition: max(
                (replica.high_watermark for replica in replicas.values()), default=-1
            )
            - self._offsets[topic_partition]
            for topic_partition, replicas in fetched.items()
        }
        most = max(self._partitions, key=lambda topic_partition: lags.get(topic_partition, 0))
        lag, offset, count = lags.get(most, 0), self._offsets[most], len(self._partitions)
        self._say(
            f"max lag is {lag} for partition {most[0]}-{most[1]} at offset {offset} among {count} "
            "partitions",
            {
                "event": "report",
                "maxLag": lag,
                "topic": most[0],
                "partition": most[1],
                "offset": offset,
                "partitions": count,
            },
        )

    def _say(self, text: str, shown: Mapping[str, Any]) -> None:
        """A line with the time; as JSON with --output json."""
        ms = self._cluster.seams.clock.now_ms()
        if self._form == "json":
            print(json.dumps({"timeMs": ms, **shown}), flush=True)
        else:
            seconds = datetime.fromtimestamp(ms // 1000).strftime("%Y-%m-%d %H:%M:%S")
            print(f"{seconds},{ms % 1000:03}: {text}", flush=True)

    async def _offsets_at(
        self, time: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Of those partitions that have a record for the time. Failed if one has no leader."""
        by_leader: defaultdict[int, defaultdict[str, list[RequestedPartition]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for topic, partition in partitions:
            leader = self._leaders[topic, partition]
            by_leader[leader][topic].append(RequestedPartition(partition, NO_EPOCH, time))
            if leader < 0:
                raise Failed(f"{topic}-{partition} has no leader now")
        answers = await asyncio.gather(
            *(
                self._cluster.ask_broker(
                    leader,
                    list_offsets.API,
                    ListOffsetsRequest(
                        CONSUMER, [RequestedTopic(*item) for item in topics.items()], 0, TIMEOUT_MS
                    ),
                )
                for leader, topics in by_leader.items()
            )
        )
        found = {}
        for answer in answers:
            for topic in answer.topics:
                for result in topic.partitions:
                    if result.error_code:
                        name = f"{topic.name}-{result.partition_index}"
                        raise Failed(f"{name}: {ErrorCode(result.error_code).name}")
                    if result.offset >= 0:
                        found[topic.name, result.partition_index] = result.offset
        return found


def _partition(
    topic: TopicResponse | None, topic_id: UUID, number: int
) -> PartitionResponse | None:
    """One of a topic that is still the same; None if it is gone."""
    if topic is None or topic.error_code or (topic.topic_id or NO_ID) != topic_id:
        return None
    return next(
        (partition for partition in topic.partitions if partition.partition_index == number), None
    )


def _or(number: int | None, default: int) -> int:
    return default if number is None else number

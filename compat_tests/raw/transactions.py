"""What scripts of transactions have in common: transactional producers, and what others see.

A script runs in each version of its own API; other requests have the versions of the protocol that
its producer follows: the first one (KIP-98), in which partitions are added before they are written
to, or the second (KIP-890), in which each transaction has an epoch of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from kavka.compat_tests.raw.case import FIRST_LINK, Ground, Script, Step
from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, Written, build
from kavka.compat_tests.raw.members import Answer, Asking

TopicPartition: TypeAlias = tuple[str, int]
"""Topic and partition."""

USUAL: Final[Mapping[str, int]] = {
    "InitProducerId": 5,
    "AddPartitionsToTxn": 3,
    "AddOffsetsToTxn": 4,
    "DescribeProducers": 0,
    "DescribeTransactions": 0,
    "Fetch": 12,
    "OffsetFetch": 8,
}
FIRST_PROTOCOL: Final[Mapping[str, int]] = {
    **USUAL,
    "Produce": 11,
    "TxnOffsetCommit": 4,
    "EndTxn": 4,
}
SECOND_PROTOCOL: Final[Mapping[str, int]] = {
    **USUAL,
    "Produce": 12,
    "TxnOffsetCommit": 5,
    "EndTxn": 5,
}
BATCHED_SINCE: Final = 4
"""AddPartitionsToTxn is of several transactions."""
TOPIC_IDS_SINCE: Final = 13
"""Produce names topics by their ids."""

CONCURRENT_TRANSACTIONS: Final = 51
READ_COMMITTED: Final = 1
TIMEOUT_MS: Final = 60_000
"""Longer than any script takes."""
CONTROL: Final = 0x20
BEGAN_MS: Final = time.time_ns() // 1_000_000 - BASE_TIMESTAMP_MS
"""Records are new ones: behind an old one, a marker would be in another segment."""


class Producer:
    """A transactional producer: its id and epoch, and where its sequences are.

    What it is asked for is one Step each (`adding`, `ending`, …), which changes nothing here; the
    generators (`init`, `produce`, `end`) take what was answered for true.
    """

    def __init__(
        self,
        on: Ground,
        name: str = "",
        *,
        second: bool | None = None,
        timeout_ms: int = TIMEOUT_MS,
        link: str = FIRST_LINK,
    ) -> None:
        if second is None:
            second = on.version >= SECOND_PROTOCOL.get(on.case.api, 1 << 15)
        self.on = on
        self.transactional_id = on.transactional_id + name
        self.second = second
        self.timeout_ms = timeout_ms
        self.link = link
        self.id = self.epoch = -1
        self._sequences: dict[tuple[TopicPartition, int], int] = {}

    def version_of(self, api: str) -> int:
        """The version in which its requests are sent."""
        if api == self.on.case.api:
            return self.on.version
        return (SECOND_PROTOCOL if self.second else FIRST_PROTOCOL)[api]

    def ask(self, api: str, **fields: Any) -> Step:
        if api == self.on.case.api:
            return self.on.ask(link=self.link, **fields)
        return self.on.other(api, self.version_of(api), link=self.link, **fields)

    # -- InitProducerId

    def initing(self, **more: Any) -> Step:
        values = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.timeout_ms,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        return self.ask("InitProducerId", **{**values, **more})

    def init(self, **more: Any) -> Asking:
        """Begin, as soon as what went before has ended."""
        answer = yield self.initing(again=is_concurrent, **more)
        if not answer["error_code"]:
            self._goes_on(answer)
        return answer

    def _goes_on(self, answer: Answer) -> None:
        self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    # -- what belongs to a transaction

    def adding(self, *partitions: TopicPartition, **more: Any) -> Step:
        """AddPartitionsToTxn, of partition 0 of the script's first topic if none is named."""
        topics = by_topic(partitions or [(self.on.topic, 0)])
        fields = {"transactional_id", "producer_id", "producer_epoch", "verify_only"}
        fields_of_one = {"transactional_id": self.transactional_id, **self.who}
        fields_of_one |= {name: more.pop(name) for name in fields & set(more)}
        if self.version_of("AddPartitionsToTxn") >= BATCHED_SINCE:
            values: dict[str, Any] = {"transactions": [{**fields_of_one, "topics": topics}]}
        else:
            values = {f"v3_and_below_{name}": value for name, value in fields_of_one.items()}
            values["v3_and_below_topics"] = topics
        return self.ask("AddPartitionsToTxn", **{**values, **more})

    def adding_offsets(self, **more: Any) -> Step:
        """AddOffsetsToTxn, of the script's group."""
        values = {"transactional_id": self.transactional_id, "group_id": self.on.group, **self.who}
        return self.ask("AddOffsetsToTxn", **{**values, **more})

    def producing(
        self,
        *values: bytes,
        partition: TopicPartition | None = None,
        sequence: int | None = None,
        transactional: bool = True,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        **more: Any,
    ) -> Step:
        """Produce one batch, to partition 0 of the first topic if none is given."""
        topic, index = where = partition or (self.on.topic, 0)
        producer = (
            self.id if producer_id is None else producer_id,
            self.epoch if producer_epoch is None else producer_epoch,
            self._sequences.get((where, self.epoch), 0) if sequence is None else sequence,
        )
        records = [Written(value=value, time_ms=BEGAN_MS) for value in values or (b"value",)]
        batch = build(records, producer=producer, transactional=transactional)
        data = {
            "name": topic,
            "topic_id": self.on.facts.ids.get(topic),
            "partition_data": [{"index": index, "records": bytes(batch)}],
        }
        fields = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": TIMEOUT_MS,
            "topic_data": [data],
        }
        return self.ask("Produce", **{**fields, **more})

    def produce(self, *values: bytes, partition: TopicPartition | None = None) -> Asking:
        """Produce one batch, in a transaction that has its partition, and go on behind it."""
        answer = yield self.producing(*values, partition=partition)
        key = (partition or (self.on.topic, 0), self.epoch)
        self._sequences[key] = self._sequences.get(key, 0) + max(1, len(values))
        return answer

    def write(self, *values: bytes, partition: TopicPartition | None = None) -> Asking:
        """Produce one batch, after its partition was added where the protocol wants that."""
        if not self.second:
            yield self.adding(partition or (self.on.topic, 0))
        return (yield from self.produce(*values, partition=partition))

    def committing(self, *offsets: int, **more: Any) -> Step:
        """TxnOffsetCommit for the script's group, for partitions 0, 1, … of its first topic."""
        partitions = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": "m"}
            for index, offset in enumerate(offsets or (5,))
        ]
        values = {
            "transactional_id": self.transactional_id,
            "group_id": self.on.group,
            **self.who,
            "topics": [{"name": self.on.topic, "partitions": partitions}],
        }
        return self.ask("TxnOffsetCommit", **{**values, **more})

    # -- EndTxn

    def ending(self, *, committed: bool = True, **more: Any) -> Step:
        values = {
            "transactional_id": self.transactional_id,
            "committed": committed,
            **self.who,
        }
        return self.ask("EndTxn", **{**values, **more})

    def end(self, *, committed: bool = True) -> Asking:
        """End, go on with the epoch in the response, and wait until all of it is done."""
        answer = yield self.ending(committed=committed)
        if not answer["error_code"] and answer.get("producer_id", -1) >= 0:
            self._goes_on(answer)
        yield from self.await_end()
        return answer

    # -- what is known of it

    def describing(self, **more: Any) -> Step:
        return self.ask(
            "DescribeTransactions", **{"transactional_ids": [self.transactional_id], **more}
        )

    def await_end(self) -> Script:
        """Wait until no transaction is on the way to its end."""
        yield self.describing(compared=False, again=is_ending)

    def timed_out(self) -> Script:
        """Wait until the broker has aborted its transaction."""
        yield self.describing(compared=False, again=lambda answer: state_of(answer) != ABORTED)

    @property
    def who(self) -> dict[str, int]:
        """The fields of id and epoch, as requests have them."""
        return {"producer_id": self.id, "producer_epoch": self.epoch}


ABORTED: Final = "CompleteAbort"
ENDING: Final = ("PrepareCommit", "PrepareAbort")


def state_of(answer: Answer) -> str:
    """The state in an answer to DescribeTransactions for one id."""
    state: str = answer["transaction_states"][0]["transaction_state"]
    return state


def is_ending(answer: Answer) -> bool:
    return state_of(answer) in ENDING


def is_concurrent(answer: Answer) -> bool:
    """Whether an answer says that another transaction of this id has not ended yet."""
    return bool(answer["error_code"] == CONCURRENT_TRANSACTIONS)


def by_topic(partitions: Sequence[TopicPartition]) -> list[Answer]:
    """Topics with their partitions, in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [{"name": name, "partitions": indexes} for name, indexes in topics.items()]


# -- what others see ------------------------------------------------------------------------


def reading(on: Ground, *partitions: TopicPartition, isolation: int = READ_COMMITTED) -> Step:
    """What a consumer is given from the start of partitions on, without what is in the records."""
    topics = [
        {
            "topic": topic["name"],
            "topic_id": on.facts.ids.get(topic["name"]),
            "partitions": [fetching(index) for index in topic["partitions"]],
        }
        for topic in by_topic(partitions or [(on.topic, 0)])
    ]
    values: dict[str, Any] = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": isolation,
        "session_epoch": -1,
        "topics": topics,
    }
    if on.case.api == "Fetch":
        return on.ask(shown=in_short, **values)
    return on.other("Fetch", USUAL["Fetch"], shown=in_short, **values)


def fetching(index: int) -> Answer:
    return {
        "partition": index,
        "fetch_offset": 0,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }


def in_short(answer: Any) -> Any:
    """An answer to a Fetch request with the headers of its batches, and what ends transactions."""
    if not isinstance(answer, dict):
        return answer
    topics = [
        {**topic, "partitions": [_in_short(partition) for partition in topic["partitions"]]}
        for topic in answer["responses"]
    ]
    return {**answer, "responses": topics}


def _in_short(partition: Answer) -> Answer:
    return {**partition, "records": list(_batches(partition["records"] or b""))}


def _batches(records: bytes) -> Sequence[Answer]:
    found: list[Answer] = []
    position = 0
    while len(records) - position >= batches.HEADER_BYTES:
        batch = bytearray(records[position:])
        size = batches.field(batch, "batch_length") + 12
        if size > len(batch):
            break
        fields: Answer = {
            name: batches.field(batch, name)
            for name in ("base_offset", "attributes", "producer_id", "producer_epoch")
        }
        fields |= {name: batches.field(batch, name) for name in ("base_sequence", "record_count")}
        if fields["attributes"] & CONTROL:
            fields["control"] = [
                [bytes(record.key).hex(), bytes(record.value).hex()]
                for record in batches.read(batch[:size])
            ]
        found.append(fields)
        position += size
    return [*found, {"bytes of another": len(records) - position}]


def offsets(on: Ground, *, stable: bool = False) -> Step:
    """The committed offsets of the script's group for its first topic."""
    topics = [{"name": on.topic, "topic_id": on.topic_id, "partition_indexes": [0, 1]}]
    values: dict[str, Any] = {
        "group_id": on.group,
        "topics": topics,
        "groups": [{"group_id": on.group, "member_epoch": -1, "topics": topics}],
        "require_stable": stable,
    }
    if on.case.api == "OffsetFetch":
        return on.ask(**values)
    return on.other("OffsetFetch", USUAL["OffsetFetch"], **values)


def producers(on: Ground, *partitions: TopicPartition) -> Step:
    """What partitions know of their producers."""
    topics = [
        {"name": topic["name"], "partition_indexes": topic["partitions"]}
        for topic in by_topic(partitions or [(on.topic, 0)])
    ]
    if on.case.api == "DescribeProducers":
        return on.ask(topics=topics)
    return on.other("DescribeProducers", USUAL["DescribeProducers"], topics=topics)

"""A transactional producer request by request, for tests that stop a broker in between.

What it asks is the same over a socket (`play`) and in memory (`play_in_memory`): a method yields
requests and is given their answers as plain values.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from support import logs
from support.logs import Producer
from support.wait import eventually

NONE: Final = 0
RETRIED: Final = frozenset({3, 5, 6, 14, 15, 16, 19, 51})
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS (as
which Produce returns the last three) and CONCURRENT_TRANSACTIONS: clients ask again."""
WITHIN_S: Final = 60.0
TIMEOUT_MS: Final = 60_000
GROUP_TYPE: Final = 0
TRANSACTION_TYPE: Final = 1


class Request(NamedTuple):
    """What is asked."""

    name: str
    version: int
    values: dict[str, Any]


Answer: TypeAlias = dict[str, Any]
Script: TypeAlias = Generator[Request, Answer, None]


class Asks(Protocol):
    """`support.raw.RawConnection`, or what is used like it."""

    def request(self, api: str, version: int, **values: Any) -> Answer: ...


class Refused(AssertionError):
    """An answer is an error that clients do not ask again after."""


@dataclass
class TransactionalProducer:
    """One, of protocol 1 or 2 (KIP-890)."""

    transactional_id: str
    protocol: int
    topic: str
    timeout_ms: int = TIMEOUT_MS
    written_ms: int = logs.TIMESTAMP
    """The time of its records. A marker of much later begins another segment."""
    now: Producer = Producer(-1, -1, 0)
    sequences: dict[int, int] = field(default_factory=dict)

    def find(self) -> Script:
        """Look for the coordinator, which makes its topic."""
        yield Request(
            "FindCoordinator", 2, {"key": self.transactional_id, "key_type": TRANSACTION_TYPE}
        )

    def init(self) -> Script:
        """Initialize: what another left unfinished is aborted."""
        version = 5 if self.protocol == 2 else 4
        values = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.timeout_ms,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        self._became((yield Request("InitProducerId", version, values)))

    def add(self, partitions: Sequence[int]) -> Script:
        """Say which partitions will be written to. Protocol 2 does without."""
        if self.protocol == 2:
            return
        values = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.now.id,
            "v3_and_below_producer_epoch": self.now.epoch,
            "v3_and_below_topics": [{"name": self.topic, "partitions": list(partitions)}],
        }
        yield Request("AddPartitionsToTxn", 3, values)

    def write(self, partition: int, values: Sequence[bytes]) -> Script:
        """One batch."""
        sequence = self.sequences.get(partition, 0)
        producer = self.now._replace(sequence=sequence)
        batch = logs.batch(
            list(values), timestamps=self.written_ms, producer=producer, transactional=True
        )
        fields = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [
                {
                    "name": self.topic,
                    "partition_data": [{"index": partition, "records": bytes(batch)}],
                }
            ],
        }
        yield Request("Produce", 12 if self.protocol == 2 else 11, fields)
        self.sequences[partition] = sequence + len(values)

    def commit_offset(self, group: str, offset: int, partitions: Sequence[int] = (0,)) -> Script:
        """Have a group's offset in some partitions committed with the transaction."""
        who = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.now.id,
            "producer_epoch": self.now.epoch,
        }
        if self.protocol == 1:
            yield Request("AddOffsetsToTxn", 3, who)
        parts = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
            for index in partitions
        ]
        topics = [{"name": self.topic, "partitions": parts}]
        yield Request("FindCoordinator", 2, {"key": group, "key_type": GROUP_TYPE})
        yield Request("TxnOffsetCommit", 5 if self.protocol == 2 else 4, {**who, "topics": topics})

    def end(self, *, commit: bool) -> Script:
        """The end of the transaction; with protocol 2 there is a new epoch."""
        values = {
            "transactional_id": self.transactional_id,
            "producer_id": self.now.id,
            "producer_epoch": self.now.epoch,
            "committed": commit,
        }
        answer = yield Request("EndTxn", 5 if self.protocol == 2 else 4, values)
        if self.protocol == 2:
            self._became(answer)

    def _became(self, answer: Answer) -> None:
        self.now = Producer(answer["producer_id"], answer["producer_epoch"], 0)
        self.sequences.clear()


def code_of(name: str, answer: Answer) -> int:
    """The one error code of an answer to one of these requests."""
    if name == "Produce":
        return int(answer["responses"][0]["partition_responses"][0]["error_code"])
    if name == "AddPartitionsToTxn":
        of_topic = answer["results_by_topic_v3_and_below"][0]["results_by_partition"]
        return max(int(partition["partition_error_code"]) for partition in of_topic)
    if name in ("OffsetCommit", "TxnOffsetCommit"):
        return int(answer["topics"][0]["partitions"][0]["error_code"])
    return int(answer["error_code"])


def check(name: str, answer: Answer) -> bool:
    """Whether it is answered; not where a client would ask again. Other errors are raised."""
    code = code_of(name, answer)
    if code not in (NONE, *RETRIED):
        raise Refused(f"{name}: {answer}")
    return code == NONE


def play(connection: Asks, script: Script) -> None:
    """Ask over a socket."""

    def ask() -> Answer | None:
        answer = connection.request(request.name, request.version, **request.values)
        return answer if check(request.name, answer) else None

    answer: Answer | None = None
    while True:
        try:
            request = next(script) if answer is None else script.send(answer)
        except StopIteration:
            return
        answer = eventually(ask, within_s=WITHIN_S, what=f"{request.name} is answered")

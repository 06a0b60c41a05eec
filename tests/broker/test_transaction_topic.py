"""What is kept of transactions is Apache Kafka's to the byte.

The same requests are made of Apache Kafka and of Kavka, in both transaction protocols and both
forms of the records; Apache Kafka's DumpLogSegments reads the same out of both topics. And what
Apache Kafka wrote says to Kavka's machine what Apache Kafka answered to clients before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from kavka.txncoord import transaction_records
from kavka.txncoord.listing import described, known
from kavka.txncoord.transaction import EPOCH_GIVEN_MAX, created
from kavka.txncoord.transaction_requests import ProducerIdAndEpoch
from kavka.wire.building import batch_of_pairs
from kavka.wire.steps import run_at_once
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.compaction import Keyed, records_of
from support.oracle import ApacheKafka
from support.oracle39 import ApacheKafka39
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.sides import both_sides
from support.transaction_machine import TransactionKit
from support.wait import eventually

SETTINGS: Final[Mapping[str, str]] = {"transaction.state.log.num.partitions": "1"}
WITHIN_S: Final = 60.0
CONCURRENT: Final = 51
NOT_YET: Final = (14, 15, 16, CONCURRENT)
"""The coordinator loads, or is not known yet, or is about to end another transaction."""

PAYLOAD: Final = re.compile(r"^\| offset: .*? key: ({.*}) payload: ({.*})$", re.MULTILINE)
PRODUCER_ID: Final = re.compile(r'(?<=roducerId":)\d+')
TIME: Final = re.compile(r'(?<=TimestampMs":)\d{13}')


class Clients:
    """Producers of transactions, request by request."""

    def __init__(self, port: int) -> None:
        self.connection = RawConnection(HOST, port)
        self.producers: dict[str, ProducerIdAndEpoch] = {}

    def _ask(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """Until it is not too early any more."""

        def answer() -> dict[str, Any] | None:
            found = self.connection.request(api, version, **values)
            return None if found["error_code"] in NOT_YET else found

        found = eventually(answer, within_s=WITHIN_S, what=f"{api} is answered")
        assert found["error_code"] == 0, found
        return found

    def find(self) -> None:
        """Have the coordinator's topic made."""

        def found() -> bool:
            answer = self.connection.request(
                "FindCoordinator", 4, key_type=1, coordinator_keys=["any"]
            )
            return bool(answer["coordinators"][0]["error_code"] == 0)

        eventually(found, within_s=WITHIN_S, what="there is a coordinator")

    def init(self, transactional_id: str, *, goes_on: bool = False) -> None:
        """A producer begins, or goes on."""
        values = self._own(transactional_id) if goes_on else {"transactional_id": transactional_id}
        found = self._ask("InitProducerId", 4, **values, transaction_timeout_ms=50_000)
        self.producers[transactional_id] = ProducerIdAndEpoch(
            found["producer_id"], found["producer_epoch"]
        )

    def _own(self, transactional_id: str) -> dict[str, Any]:
        return {"transactional_id": transactional_id, **self.producers[transactional_id]._asdict()}

    def once(
        self, api: str, version: int, transactional_id: str, **values: Any
    ) -> tuple[int, int, int]:
        """What a producer is answered, with its code, without another try."""
        found = self.connection.request(api, version, **self._own(transactional_id), **values)
        own = found.get("producer_id", -1), found.get("producer_epoch", -1)
        return found["error_code"], *own

    def _transaction(
        self, transactional_id: str, topics: Mapping[str, list[int]]
    ) -> dict[str, Any]:
        return {
            **self._own(transactional_id),
            "topics": [{"name": name, "partitions": which} for name, which in topics.items()],
        }

    def add(self, transactional_id: str, **topics: list[int]) -> None:
        """As a client of the first protocol."""
        transaction = self._transaction(transactional_id, topics)
        transaction["v3_and_below_transactional_id"] = transaction.pop("transactional_id")
        transaction["v3_and_below_producer_id"] = transaction.pop("producer_id")
        transaction["v3_and_below_producer_epoch"] = transaction.pop("producer_epoch")
        transaction["v3_and_below_topics"] = transaction.pop("topics")
        answer = self.connection.request("AddPartitionsToTxn", 3, **transaction)
        assert_added(answer["results_by_topic_v3_and_below"])

    def add_newly(self, transactional_id: str, **topics: list[int]) -> None:
        """As a broker does for a client of the second."""
        transaction = {**self._transaction(transactional_id, topics), "verify_only": False}
        answer = self.connection.request("AddPartitionsToTxn", 5, transactions=[transaction])
        assert_added(answer["results_by_transaction"][0]["topic_results"])

    def end(self, transactional_id: str, *, committed: bool, version: int = 3) -> None:
        """To the last marker."""
        values = {**self._own(transactional_id), "committed": committed}
        found = self._ask("EndTxn", version, **values)
        if version >= 5:
            self.producers[transactional_id] = ProducerIdAndEpoch(
                found["producer_id"], found["producer_epoch"]
            )
        eventually(
            lambda: self.describe(transactional_id)["transaction_state"].startswith("Complete"),
            within_s=WITHIN_S,
            what=f"the transaction of {transactional_id} is complete",
        )

    def describe(self, transactional_id: str) -> dict[str, Any]:
        """What is described of an id."""
        answer = self.connection.request(
            "DescribeTransactions", 0, transactional_ids=[transactional_id]
        )
        (found,) = answer["transaction_states"]
        assert found["error_code"] == 0
        return dict(found)


def assert_added(results: list[dict[str, Any]]) -> None:
    """All partitions are in the transaction."""
    codes = {
        part["partition_error_code"] for topic in results for part in topic["results_by_partition"]
    }
    assert codes == {0}


def old_protocol(on: Clients) -> None:
    """Transactions, and one that is fenced away."""
    on.init("a")
    on.add("a", t=[0, 1])
    on.add("a", t=[1], u=[0])
    on.end("a", committed=True)
    on.add("a", u=[0])
    on.end("a", committed=False)
    on.init("a", goes_on=True)
    on.init("b")
    on.add("b", t=[0])
    on.init("b")
    on.init("c")
    on.add("c", t=[1])


def new_protocol(on: Clients) -> None:
    """The same in the second protocol, and an abort of nothing."""
    on.init("d")
    on.add_newly("d", t=[0, 1])
    on.end("d", committed=True, version=5)
    on.add_newly("d", t=[0], u=[1])
    on.end("d", committed=False, version=5)
    on.end("d", committed=False, version=5)
    on.init("e")
    on.end("e", committed=False, version=5)
    on.add_newly("e", u=[0])
    on.init("e", goes_on=True)
    on.init("f")
    on.add_newly("f", t=[0])


def old_protocol_at_its_end(on: Clients) -> Iterator[tuple[int, int, int]]:
    """Of producers that have their last epochs."""
    on.init("g")
    yield 0, *on.producers["g"]
    for _ in range(2):
        yield on.once("InitProducerId", 4, "h", transaction_timeout_ms=50_000)
    on.producers["h"] = on.producers["h"]._replace(producer_epoch=EPOCH_GIVEN_MAX - 1)
    yield on.once("InitProducerId", 4, "h", transaction_timeout_ms=50_000)
    on.add("i", t=[0])
    on.init("i")
    yield 0, *on.producers["i"]
    on.add("j", t=[0])
    on.end("j", committed=True)
    yield on.once("EndTxn", 3, "j", committed=True)
    yield on.once("EndTxn", 3, "j", committed=False)
    on.init("j", goes_on=True)
    yield 0, *on.producers["j"]


def new_protocol_at_its_end(on: Clients) -> Iterator[tuple[int, int, int]]:
    """The same."""
    before = on.producers["k"]
    on.add_newly("k", t=[0])
    on.end("k", committed=True, version=5)
    yield 0, *on.producers["k"]
    after, on.producers["k"] = on.producers["k"], before
    yield on.once("EndTxn", 5, "k", committed=True)
    yield on.once("EndTxn", 5, "k", committed=False)
    on.producers["k"] = after
    on.add_newly("k", t=[0])
    on.end("k", committed=True, version=5)
    yield 0, *on.producers["k"]
    on.end("l", committed=False, version=5)
    yield 0, *on.producers["l"]


WORN: Final = {
    transactional_id: ProducerIdAndEpoch(900_000 + at, EPOCH_GIVEN_MAX)
    for at, transactional_id in enumerate("ghijkl")
}
"""Producers with their last epochs."""


class Side:
    """One broker on which all that has been done."""

    def __init__(self, broker: BrokerProcess, ids: str) -> None:
        for topic in ("t", "u"):
            create_topic(broker.bootstrap, topic, partitions=2)
        clients = Clients(broker.port)
        clients.find()
        old_protocol(clients)
        if "d" in ids:
            new_protocol(clients)
        self.states = {
            transactional_id: clients.describe(transactional_id) for transactional_id in ids
        }
        broker.stop()
        self.log = broker.data_dir / "__transaction_state-0" / f"{0:020}.log"
        self.first_end = len(self.records)
        self.answers = self._wear_out(broker, "d" in ids)
        self.dumped = self._dump()

    def _wear_out(self, broker: BrokerProcess, newly: bool) -> list[tuple[int, object, int]]:
        """What producers are answered that have used up their epochs; ids by when they came."""
        empty = created(0, 50_000, 1_700_000_000_000)
        values = {
            transactional_id: empty._replace(
                producer_id=own.producer_id, producer_epoch=own.producer_epoch
            )
            for transactional_id, own in WORN.items()
        }
        written = [
            run_at_once(transaction_records.transaction_record(transactional_id, state, 0))
            for transactional_id, state in values.items()
        ]
        batch = run_at_once(batch_of_pairs(written, empty.updated_ms))
        batch[:8] = self.first_end.to_bytes(8, "big")
        with self.log.open("ab") as log:
            log.write(batch)
        clients = Clients(broker.start().port)
        clients.find()
        clients.producers.update(WORN)
        answers = list(old_protocol_at_its_end(clients))
        if newly:
            answers += new_protocol_at_its_end(clients)
        broker.stop()
        fresh: dict[int, str] = {
            own.producer_id: transactional_id for transactional_id, own in WORN.items()
        }
        return [
            (code, fresh.setdefault(known, f"P{len(fresh)}"), epoch)
            for code, known, epoch in answers
        ]

    @property
    def records(self) -> list[Keyed]:
        return list(records_of(self.log.read_bytes()))

    def _dump(self) -> list[str]:
        """Keys and payloads as DumpLogSegments decodes them, producer ids by when they came."""
        done = java.run(java.DUMP_LOG, "--transaction-log-decoder", "--files", str(self.log))
        assert done.exit_code == 0 and not done.stderr, done.stderr
        text = "\n".join(key + in_order(payload) for key, payload in PAYLOAD.findall(done.text))
        known: dict[str, int] = {}
        text = PRODUCER_ID.sub(lambda match: f"P{known.setdefault(match[0], len(known))}", text)
        return TIME.sub("<time>", text).splitlines()


def in_order(payload: str) -> str:
    """A value with its topics and partitions in order: Apache Kafka draws it from a hash table."""
    value = json.loads(payload)
    for topic in value["data"].get("transactionPartitions") or ():
        topic["partitionIds"].sort()
    if value["data"].get("transactionPartitions"):
        value["data"]["transactionPartitions"].sort(key=lambda entry: entry["topic"])
    return json.dumps(value, separators=(",", ":"))


PAIRS: Final = {
    "4.3.1": (ApacheKafka, "2", "abcdef"),
    "3.9.2": (ApacheKafka39, "0", "abc"),
}


@pytest.fixture(scope="module", params=PAIRS)
def sides(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    """Kavka and Apache Kafka."""
    apache, feature, ids = PAIRS[request.param]
    home: Path = tmp_path_factory.mktemp("transaction-topic")
    kavka = Kavka(home / "kavka", {**SETTINGS, "kavka.transaction.version": feature})
    kafka = apache(home / "kafka", SETTINGS)
    with both_sides(kavka, kafka, lambda broker: Side(broker, ids)) as sides:
        yield sides


def test_dump_log_decodes_the_same_records(sides: tuple[Side, Side]) -> None:
    kavka, kafka = sides
    assert len(kafka.dumped) >= 14
    assert kavka.dumped == kafka.dumped


def test_producers_whose_epochs_are_used_up_are_answered_the_same(
    sides: tuple[Side, Side],
) -> None:
    kavka, kafka = sides
    assert kafka.answers[0] == (0, "P6", 0), "an id that is new"
    assert kavka.answers == kafka.answers


def test_the_log_of_apache_kafka_has_the_states_that_it_answered(sides: tuple[Side, Side]) -> None:
    _, kafka = sides
    shard = TransactionKit().shard
    written = [record for record in kafka.records if record.offset < kafka.first_end]
    shard.replay(*zip(*((record.key or b"", record.value) for record in written), strict=True))
    for transactional_id, state in kafka.states.items():
        found = run_at_once(described(known(shard.state, transactional_id)))
        topics = {topic["topic"]: sorted(topic["partitions"]) for topic in state["topics"]}
        assert (found.state, found.producer_id, found.producer_epoch) == (
            state["transaction_state"],
            state["producer_id"],
            state["producer_epoch"],
        )
        assert found.timeout_ms == state["transaction_timeout_ms"]
        assert dict(found.topics) == topics
        if found.state != "Empty":  # of which 3.9 says when the transaction before began
            assert found.started_ms == state["transaction_start_time_ms"]
    assert {state["transaction_state"] for state in kafka.states.values()} >= {"Empty", "Ongoing"}


def test_its_records_are_written_again_to_the_byte(sides: tuple[Side, Side]) -> None:
    """But for the order of topics and partitions, which it draws from a hash table."""
    _, kafka = sides
    seen = 0
    for record in kafka.records:
        assert record.key is not None and record.value is not None
        transactional_id = transaction_records.decode_key(record.key)
        state = run_at_once(transaction_records.decode(record.value))
        assert transactional_id is not None and state is not None
        assert transaction_records.encode_key(transactional_id) == record.key
        written = run_at_once(transaction_records.encode(state, record.value[1]))
        assert sorted(written) == sorted(record.value)
        seen += len(state.partitions) < 2 and written == record.value
        assert len(state.partitions) > 1 or written == record.value
    assert seen >= 8

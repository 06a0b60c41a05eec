"""A broker whose connections have taken every file descriptor there is, while it is at work."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import ExitStack

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.wire.errors import ErrorCode as Code
from support.broker import StartBroker
from support.crowd import connect
from support.logs import parse
from support.memory_broker import fetching, producing
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

SPARE = 40
"""Descriptors that the broker has left when the crowd comes."""

CROWD = 60
WITHIN_S = 60.0
ASK_MS = 20_000
VALUE = bytes(400)
CONFIGS = {"internal.segment.bytes": "1000"}
SETTINGS = {
    "log.segment.delete.delay.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "500",
}


class Clients:
    """A connection that was there before the crowd, and what was acknowledged to it."""

    def __init__(self, connection: RawConnection) -> None:
        self.connection = connection
        self.records: dict[str, list[bytes]] = {}
        self.refusals: list[Code] = []

    def until_done(self, ask: Callable[[], int], *fine: Code) -> None:
        """A request that is refused may be sent again."""

        def is_done() -> bool:
            code = Code(ask())
            if code == Code.NONE or code in fine:
                return True
            assert code.retriable, code
            self.refusals.append(code)
            return False

        eventually(is_done, within_s=WITHIN_S, what="an answer without an error")

    def create(self, name: str) -> None:
        topics = [new_topic(name, 1, configs=CONFIGS)]

        def ask() -> int:
            answer = self.connection.request("CreateTopics", 5, timeout_ms=ASK_MS, topics=topics)
            return int(answer["topics"][0]["error_code"])

        self.until_done(ask, Code.TOPIC_ALREADY_EXISTS)
        self.records[name] = []

    def delete(self, name: str) -> None:
        def ask() -> int:
            answer = self.connection.request(
                "DeleteTopics", 5, topic_names=[name], timeout_ms=ASK_MS
            )
            return int(answer["responses"][0]["error_code"])

        self.until_done(ask, Code.UNKNOWN_TOPIC_OR_PARTITION)
        del self.records[name]

    def produce(self, name: str, value: bytes) -> None:
        def ask() -> int:
            batch = build([Written(value=value)])
            answer = self.connection.request("Produce", 8, **producing({(name, 0): bytes(batch)}))
            return int(answer["responses"][0]["partition_responses"][0]["error_code"])

        self.until_done(ask)
        self.records[name].append(value)


def check(broker: BrokerProcess, records: dict[str, list[bytes]]) -> None:
    """All that was acknowledged is there, once."""
    with RawConnection(HOST, broker.port) as connection:
        for name, values in records.items():
            found: list[bytes | None] = []
            while len(found) < len(values):
                answer = connection.request("Fetch", 11, **fetching({(name, 0): len(found)}))
                partition = answer["responses"][0]["partitions"][0]
                assert partition["error_code"] == 0, partition
                read = parse(bytes(partition["records"] or b""))
                assert read, f"{name} ends at {len(found)}"
                found += [record.value for record in read]
            assert found == values


def test_all_is_done_and_no_directory_is_lost(start_broker: StartBroker) -> None:
    broker = start_broker(**SETTINGS)
    assert broker.process is not None
    pid = broker.process.pid
    with RawConnection(HOST, broker.port) as connection, ExitStack() as crowd:
        clients = Clients(connection)
        for name in ("t", "old"):
            clients.create(name)
            clients.produce(name, VALUE)
        used = len(os.listdir(f"/proc/{pid}/fd"))
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + SPARE, hard))
        for _ in range(CROWD):
            crowd.enter_context(connect(broker.port))
        eventually(
            lambda: "can't accept connections" in broker.output(),
            within_s=WITHIN_S,
            what="the crowd has taken all descriptors",
        )
        for number in range(20):
            clients.produce("t", b"%d" % number + VALUE)
            if number == 5:
                clients.create("new")
            if number == 10:
                clients.delete("old")
            if number > 15:
                clients.produce("new", b"%d" % number + VALUE)
        assert not clients.refusals, "connections leave enough for files"
        crowd.close()
        check(broker, clients.records)
    assert "can't be used until a restart" not in broker.output()
    broker.kill()
    broker.start()
    check(broker, clients.records)
    for name in ("t", "new"):
        assert (broker.data_dir / f"{name}-0").is_dir()
    eventually(
        lambda: not (broker.data_dir / "old-0").exists(),
        within_s=WITHIN_S,
        what="what was deleted is gone",
        detail=broker.tail,
    )

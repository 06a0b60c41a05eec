"""Groups in many states on a broker, made by plain requests: their members do nothing more."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final
from uuid import UUID

from kafka import KafkaProducer

from support.clients.kafka_python import create_topic
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

FIRST_MS: Final = 1_700_000_000_000
LONG: Final = "a-topic-with-a-name-of-more-than-fifteen-letters"
SMILING: Final = 9 * "\U0001f600"
"""Which Java counts as eighteen characters."""

KEPT_MS: Final = 600_000
WITHIN_S: Final = 60.0
NOT_YET: Final = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""

REBALANCE_IN_PROGRESS: Final = 27
NO_GENERATION: Final = -1
LEAVES: Final = -1

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.session.timeout.ms": str(KEPT_MS),
    "group.consumer.session.timeout.ms": str(KEPT_MS),
    "offsets.topic.num.partitions": "3",
}
"""What a broker needs so that they stay as they are."""

Offsets = Mapping[tuple[str, int], int]
Owned = Mapping[str, Sequence[int]]

CONSUMED: Final[Offsets] = {("orders", 0): 2, ("orders", 3): 0, ("orders", 10): 3, ("plain", 1): 7}


def fill(broker: BrokerProcess) -> None:
    """Topics with records, and groups without members."""
    for topic, partitions in (("orders", 12), ("plain", 2), (LONG, 1)):
        create_topic(broker.bootstrap, topic, partitions)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
    for number in range(60):
        topic, count = ("orders", 11) if number % 3 else ("plain", 2)
        sent = producer.send(
            topic, b"%04d" % number, partition=number % count, timestamp_ms=FIRST_MS + number
        )
        sent.get(timeout=60)
    producer.close()
    with ExitStack() as stack:
        groups = Groups(broker, stack)
        groups.commit("simple", CONSUMED)
        groups.commit("with spaces, and a comma", {("plain", 0): 4})
        groups.commit(f"g-{LONG}", {(LONG, 0): 0, ("plain", 0): 3})
        groups.commit(SMILING, {("plain", 0): 2})
        groups.left("empty", CONSUMED)
        groups.left("gone", {("plain", 0): 1})
        groups.next_left("next-empty", {("orders", 4): 1})


class Groups:
    """Makes them. Their members' connections are open as long as the stack."""

    def __init__(self, broker: BrokerProcess, stack: ExitStack) -> None:
        self._broker = broker
        self._stack = stack

    def with_members(self) -> None:
        """Some of each kind."""
        self.pair("classic", {("orders", 0): 1, ("plain", 0): 5, (LONG, 0): 0})
        self._join("joining", "consumer")
        self.stays("connected", "connect")
        self.commit("next", {("orders", 1): 2, ("plain", 1): 0})
        self.next_one("next", "first")
        self.next_one("moving", "first")
        self._beat("moving", "second", 0, ("orders",))
        self.stays("mixed", "consumer")
        self._beat("mixed", "second", 0, ("orders", "plain"))

    def commit(
        self, group: str, offsets: Offsets, member: str = "", generation: int = NO_GENERATION
    ) -> None:
        """By a member, or by nobody."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_leader_epoch": 0 if partition % 2 else -1,
                    "committed_metadata": "",
                }
            )
        self._ask(
            "OffsetCommit",
            9,
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=None,
            topics=[
                {"name": name, "partitions": partitions} for name, partitions in topics.items()
            ],
        )

    def left(self, group: str, offsets: Offsets) -> None:
        """A classic group whose one member has left."""
        member, generation = self.stays(group, "consumer")
        self.commit(group, offsets, member, generation)
        self._ask("LeaveGroup", 1, group_id=group, member_id=member)

    def stays(self, group: str, protocol_type: str) -> tuple[str, int]:
        """A classic group with one member: its id and its generation."""
        found = self._join(group, protocol_type)
        member, generation = found["member_id"], found["generation_id"]
        self._sync(group, member, generation, {member: {"orders": [0, 3], "plain": [1]}})
        return member, generation

    def pair(self, group: str, offsets: Offsets) -> None:
        """A classic group of two members, one static."""
        self.commit(group, offsets)
        alone = self._join(group, "consumer")
        with ThreadPoolExecutor(2) as pool:
            other = pool.submit(self._join, group, "consumer", "worker-1")
            self._await_rebalance(group, alone["member_id"], alone["generation_id"])
            again = self._join(group, "consumer", member=alone["member_id"])
            members = [again, other.result()]
            ids = [member["member_id"] for member in members]
            owned = {ids[0]: {"plain": [0, 1]}, ids[1]: {"orders": [0, 1, 2], LONG: [0]}}
            synced = [
                pool.submit(
                    self._sync,
                    group,
                    member["member_id"],
                    member["generation_id"],
                    owned if member["member_id"] == member["leader"] else {},
                )
                for member in members
            ]
            for future in synced:
                future.result()

    def next_one(self, group: str, member: str) -> None:
        """A group of the consumer protocol with one member, which has all that it is to have."""
        answer = self._beat(group, member, 0, ("orders", "plain"))
        given = answer["assignment"] or eventually(
            lambda: self._beat(group, member, answer["member_epoch"])["assignment"],
            within_s=WITHIN_S,
            what="the member is assigned partitions",
        )
        owned = {topic["topic_id"]: topic["partitions"] for topic in given["topic_partitions"]}
        self._beat(group, member, answer["member_epoch"], owned=owned)

    def next_left(self, group: str, offsets: Offsets) -> None:
        """A group of the consumer protocol whose one member has left."""
        answer = self._beat(group, "first", 0, ("orders",))
        self.commit(group, offsets, "first", answer["member_epoch"])
        self._beat(group, "first", LEAVES)

    def _await_rebalance(self, group: str, member: str, generation: int) -> None:
        """Wait until a member learns that another one joins."""
        connection = self._stack.enter_context(RawConnection(HOST, self._broker.port))
        identity = {"group_id": group, "generation_id": generation, "member_id": member}

        def is_told() -> bool:
            code: int = connection.request("Heartbeat", 1, **identity)["error_code"]
            assert code in (0, REBALANCE_IN_PROGRESS), code
            return code == REBALANCE_IN_PROGRESS

        eventually(is_told, within_s=WITHIN_S, what=f"{group} is rebalanced")

    def _join(
        self, group: str, protocol_type: str, instance: str | None = None, member: str = ""
    ) -> dict[str, Any]:
        return self._ask(
            "JoinGroup",
            5 if instance else 3,
            group_id=group,
            session_timeout_ms=KEPT_MS,
            rebalance_timeout_ms=KEPT_MS,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[{"name": "range", "metadata": _subscription(("orders", "plain"))}],
        )

    def _sync(self, group: str, member: str, generation: int, owned: Mapping[str, Owned]) -> None:
        self._ask(
            "SyncGroup",
            2,
            group_id=group,
            generation_id=generation,
            member_id=member,
            assignments=[
                {"member_id": member_id, "assignment": _assignment(partitions)}
                for member_id, partitions in owned.items()
            ],
        )

    def _beat(
        self,
        group: str,
        member: str,
        epoch: int,
        topics: Sequence[str] | None = None,
        owned: Mapping[UUID, Sequence[int]] | None = None,
    ) -> dict[str, Any]:
        owned_topics = [
            {"topic_id": topic_id, "partitions": list(partitions)}
            for topic_id, partitions in (owned or {}).items()
        ]
        return self._ask(
            "ConsumerGroupHeartbeat",
            1,
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=KEPT_MS if epoch == 0 else -1,
            subscribed_topic_names=topics,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=owned_topics if epoch == 0 or owned is not None else None,
        )

    def _ask(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """On a connection of its own, again until the coordinator is there."""
        connection = self._stack.enter_context(RawConnection(HOST, self._broker.port))

        def answer() -> dict[str, Any] | None:
            found = connection.request(api, version, **values)
            codes = _codes(found)
            if codes & NOT_YET:
                connection.request("FindCoordinator", 1, key=values["group_id"], key_type=0)
                return None
            assert codes <= {0}, found
            return found

        return eventually(answer, within_s=WITHIN_S, what=f"{api} succeeds")


def _codes(answer: Mapping[str, Any]) -> set[int]:
    if "error_code" in answer:
        return {answer["error_code"]}
    return {
        partition["error_code"] for topic in answer["topics"] for partition in topic["partitions"]
    }


def _subscription(topics: Sequence[str]) -> bytes:
    """In Apache Kafka's ConsumerProtocolSubscription, version 0."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(_text, topics)) + struct.pack(">i", -1)


def _assignment(owned: Owned) -> bytes:
    """In Apache Kafka's ConsumerProtocolAssignment, version 0."""
    out = struct.pack(">hi", 0, len(owned))
    for topic, partitions in owned.items():
        out += _text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return out + struct.pack(">i", -1)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()

"""Moving replicas between the log directories of a broker, on a socket."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence

from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

WITHIN_S = 120.0
CANCELS_MAX = 3
"""So often in a row a partition's move is replaced by another; the next one may come to its end."""

TopicPartition = tuple[str, int]
Described = list[tuple[TopicPartition, str, bool, int]]
"""Partition, directory, whether it is a copy that moves there, and size."""


def move(
    broker: BrokerProcess, topic_partitions: Sequence[TopicPartition], path: str
) -> dict[TopicPartition, int]:
    """Have partitions move to a log directory; error codes."""
    names = dict.fromkeys(topic for topic, _ in topic_partitions)
    topics = [
        {"name": name, "partitions": [index for topic, index in topic_partitions if topic == name]}
        for name in names
    ]
    with RawConnection(HOST, broker.port) as connection:
        dirs = [{"path": path, "topics": topics}]
        answer = connection.request("AlterReplicaLogDirs", 2, dirs=dirs)
    return {
        (topic["topic_name"], partition["partition_index"]): partition["error_code"]
        for topic in answer["results"]
        for partition in topic["partitions"]
    }


def placed(broker: BrokerProcess) -> dict[TopicPartition, str]:
    """The log directory of each partition; of one that moves the one that it leaves."""
    return _placed(_described(broker))


def _placed(described: Described) -> dict[TopicPartition, str]:
    return {topic_partition: path for topic_partition, path, is_copy, _ in described if not is_copy}


def copies(broker: BrokerProcess) -> dict[TopicPartition, int]:
    """The partitions that move, with the size of what is copied."""
    return {
        topic_partition: size for topic_partition, _, is_copy, size in _described(broker) if is_copy
    }


def _described(broker: BrokerProcess) -> Described:
    with RawConnection(HOST, broker.port) as connection:
        answer = connection.request("DescribeLogDirs", 4, topics=None)
    return [
        (
            (topic["name"], partition["partition_index"]),
            directory["log_dir"],
            partition["is_future_key"],
            partition["partition_size"],
        )
        for directory in answer["results"]
        for topic in directory["topics"]
        for partition in topic["partitions"]
    ]


def await_moved(broker: BrokerProcess, within_s: float = WITHIN_S) -> None:
    """Until no partition moves any more."""
    eventually(
        lambda: not copies(broker),
        within_s=within_s,
        what="all moves come to their end",
        detail=lambda: f"{copies(broker)}\n{broker.tail()}",
    )


def await_placed(broker: BrokerProcess, topic_partition: TopicPartition, path: str) -> None:
    """Until a partition has moved to `path`. For a moment Apache Kafka shows one that has come
    there as two that do not move, or only where it was: it describes while it replaces."""

    def found() -> list[tuple[str, bool]]:
        return [
            (where, is_copy)
            for this, where, is_copy, _ in _described(broker)
            if this == topic_partition
        ]

    eventually(
        lambda: found() == [(path, False)],
        within_s=WITHIN_S,
        what=f"the partition is in {path}",
        detail=lambda: f"{found()}\n{broker.tail()}",
    )


class Mover(threading.Thread):
    """Has one partition after the other move to one directory or another, until it is stopped;
    whether the broker is there or not."""

    def __init__(self, broker: BrokerProcess, paths: Sequence[str], chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._paths = paths
        self._chance = chance
        self._stopped = threading.Event()
        self.codes: Counter[int] = Counter()
        """Of the answers."""
        self.moved = 0
        """How often a partition was found in another directory than before."""
        self.failures: list[BaseException] = []
        self._cancelled: Counter[TopicPartition] = Counter()

    def run(self) -> None:
        before: dict[TopicPartition, str] = {}
        while not self._stopped.wait(self._chance.random() * 0.05):
            try:
                found = _described(self._broker)
                now = _placed(found)
                moved = [
                    topic_partition
                    for topic_partition, path in before.items()
                    if now.get(topic_partition, path) != path
                ]
                self.moved += len(moved)
                before |= now
                self._move_one(
                    sorted(now),
                    moved,
                    {topic_partition for topic_partition, _, copy, _ in found if copy},
                )
            except (OSError, AssertionError):  # the broker is not there
                self._stopped.wait(0.05)
            except Exception as failure:
                self.failures.append(failure)
                return

    def _move_one(
        self,
        topic_partitions: list[TopicPartition],
        moved: list[TopicPartition],
        moving: set[TopicPartition],
    ) -> None:
        for topic_partition in moved:
            del self._cancelled[topic_partition]
        may_move = [
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition not in moving or self._cancelled[topic_partition] < CANCELS_MAX
        ]
        if not may_move:
            return
        topic_partition = self._chance.choice(may_move)
        self._cancelled[topic_partition] += topic_partition in moving
        codes = move(self._broker, [topic_partition], self._chance.choice(self._paths))
        self.codes.update(codes.values())

    def finish(self) -> None:
        """End it; nothing that it saw may be wrong."""
        self._stopped.set()
        self.join(WITHIN_S)
        assert not self.failures, self.failures
        await_moved(self._broker)
        print(f"{self.moved} moves seen, answers {dict(self.codes)}")

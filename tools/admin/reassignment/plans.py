"""Plans: which brokers and log directories partitions are to be on, as JSON has them in Apache
Kafka's form.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2],
     "log_dirs": ["any", "/data"]}]}

Where a plan makes no sense it is Apache Kafka's sentence that says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_order import hash_order, number_order, partition_order
from kavka.tools.admin.json_values import first_value, is_number
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.printing import joined
from kavka.tools.java_numbers import parse_int

ANY_DIRECTORY: Final = "any"
VERSION: Final = 1
K = TypeVar("K", bound=Hashable)

Assignment = Mapping[TopicPartition, Sequence[int]]
"""The brokers of each partition, the preferred leader first."""


class Replica(NamedTuple):
    """A partition on a broker."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


Directories = Mapping[Replica, str]
"""The log directory of each replica that has to be in a certain one."""


class Plan(NamedTuple):
    """What a file says."""

    partitions: Sequence[tuple[TopicPartition, Sequence[int]]]
    """As it has them, some perhaps twice."""
    directories: Directories

    @property
    def assignment(self) -> Assignment:
        """The last that is said of each partition."""
        return dict(self.partitions)


def name_of(topic_partition: TopicPartition) -> str:
    """As Apache Kafka writes it."""
    return f"{topic_partition[0]}-{topic_partition[1]}"


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """In order, with commas between."""
    return ",".join(map(name_of, sorted(partitions)))


def read_plan(text: str) -> Plan:
    """Failed if it is none."""
    if not text:
        raise Failed("The input string shouldn't be empty")
    try:
        document = _document(first_value(text))
    except ValueError as error:
        raise Failed(f"--reassignment-json-file is no JSON: {error}") from error
    partitions: list[tuple[TopicPartition, Sequence[int]]] = []
    directories: dict[Replica, str] = {}
    for entry in _entries(document, "partitions"):
        fields = _document(entry)
        topic, partition = _text(_field(fields, "topic")), _number(_field(fields, "partition"))
        replicas = [_number(replica) for replica in _list(_field(fields, "replicas"))]
        log_dirs = [ANY_DIRECTORY] * len(replicas)
        if "log_dirs" in fields:
            log_dirs = [_text(log_dir) for log_dir in _list(fields["log_dirs"])]
        if len(log_dirs) != len(replicas):
            raise Failed(
                f"Size of replicas list {replicas} is different from size of log dirs list "
                f"[{', '.join(log_dirs)}] for partition {topic}-{partition}"
            )
        partitions.append(((topic, partition), replicas))
        directories |= {
            Replica(broker, topic, partition): log_dir
            for broker, log_dir in zip(replicas, log_dirs, strict=True)
            if log_dir != ANY_DIRECTORY
        }
    return Plan(partitions, directories)


def check_numbers(plan: Plan) -> None:
    """Failed if a partition has a number that none can have."""
    for topic_partition, _ in plan.partitions:
        if topic_partition[1] < 0:
            raise Failed(f"{name_of(topic_partition)}: the number of a partition can't be negative")


def check_executable(plan: Plan) -> None:
    """Failed if no cluster could carry it out."""
    if not plan.partitions:
        raise Failed("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.partitions):
        raise Failed("Partition replica list cannot be empty")
    if twice := _repeated(
        (topic_partition for topic_partition, _ in plan.partitions), partition_order
    ):
        raise Failed(
            "Partition reassignment contains duplicate topic partitions: "
            + ",".join(map(name_of, twice))
        )
    wrong = [
        f"{name_of(topic_partition)} contains multiple entries for {joined(brokers)}"
        for topic_partition, replicas in plan.partitions
        if (brokers := _repeated(replicas, number_order))
    ]
    if wrong:
        raise Failed(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}"
        )


def read_topics(text: str) -> list[str]:
    """The names in a file of topics to move: {"topics": [{"topic": "orders"}], "version": 1}.
    Failed if it is none."""
    try:
        parsed = first_value(text)
    except ValueError as error:
        raise Failed("The input string is not a valid JSON") from error
    topics = [
        _text(_field(_document(entry), "topic")) for entry in _entries(_document(parsed), "topics")
    ]
    if twice := _repeated(topics, hash_order):
        raise Failed(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def read_brokers(text: str) -> list[int]:
    """Ids with commas between. Failed if they are no such."""
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    brokers: list[int] = []
    for word in words:
        number = parse_int(word)
        if number is None:
            raise Failed(f'For input string: "{word}"')
        brokers.append(number)
    if twice := _repeated(brokers, number_order):
        raise Failed(f"Broker list contains duplicate entries: {twice}")
    return brokers


def document(assignment: Assignment, directories: Directories) -> dict[str, Any]:
    """A plan as JSON has it; "any" where `directories` doesn't name one."""
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": list(replicas),
            "log_dirs": [
                directories.get(Replica(broker, topic, partition), ANY_DIRECTORY)
                for broker in replicas
            ],
        }
        for (topic, partition), replicas in sorted(assignment.items())
    ]
    return {"version": VERSION, "partitions": partitions}


def written(value: Any) -> str:
    """JSON as Apache Kafka writes it, on one line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _entries(fields: Mapping[str, Any], name: str) -> Sequence[Any]:
    version = _number(fields.get("version", VERSION))
    if version != VERSION:
        raise Failed(f"Not supported version field value {version}")
    found = fields.get(name, [])
    if not isinstance(found, list):
        raise Failed(f"Expected JSON array, received {written(found)}")
    return found


def _document(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Failed(f"Expected JSON object, received {written(value)}")
    return value


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise Failed(f"No such field exists: `{name}`")
    return fields[name]


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise Failed(f"Expected `JSON array` value, received {written(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Failed(f"Expected `String` value, received {written(value)}")
    return value


def _number(value: Any) -> int:
    if not is_number(value, 32):
        raise Failed(f"Expected `Integer` value, received {written(value)}")
    return int(value)


def _repeated(values: Iterable[K], order: Callable[[Iterable[K]], list[K]]) -> list[K]:
    """Those that come more than once, in Java's order."""
    seen, twice = dict[K, None](), dict[K, None]()
    for value in values:
        (twice if value in seen else seen)[value] = None
    return order(twice)

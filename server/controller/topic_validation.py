"""Validation of CreateTopics. Pure.

A request with several errors gets the first; the order of the checks is Apache Kafka 4.3's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple, Protocol, TypeAlias

from kavka.seams import Random
from kavka.server.cluster.control_messages import NO_TOPIC_ID
from kavka.server.controller.replica_assignment import assign_replicas
from kavka.wire.errors import ApiError, ErrorCode

USE_DEFAULT: Final = -1
"""As number of partitions or replicas: use the broker's default."""

NAME_CHARACTERS_MAX: Final = 249
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""In all topics of one request; Apache Kafka 4.3's limit."""

CLUSTER_METADATA: Final = "__cluster_metadata"
_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

ValidateConfigs: TypeAlias = Callable[[Mapping[str, str | None]], None]
"""Raises ApiError INVALID_CONFIG for invalid topic configs."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create, with either counts or `assignments` (partitions with their replicas)."""

    name: str
    num_partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, tuple[int, ...]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


class TopicResult(NamedTuple):
    """The result for one topic. The counts are -1 unless `code` is NONE.

    A topic that was only validated has an id too; as in Apache Kafka it is never used.
    """

    code: ErrorCode
    message: str | None = None
    topic_id: uuid.UUID = NO_TOPIC_ID
    num_partitions: int = -1
    replication_factor: int = -1


class TopicCreator(Protocol):
    """The controller, wherever it is, for topics that are created on first use."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
    ) -> Mapping[str, TopicResult]:
        """As `Controller.create_topics`."""
        ...


class Defaults(NamedTuple):
    """`num.partitions` and `default.replication.factor`."""

    num_partitions: int
    replication_factor: int


def check_topic_name(name: str) -> None:
    """ApiError INVALID_TOPIC_EXCEPTION for an invalid name."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_CHARACTERS_MAX:
        too_long = f"longer than the max allowed length {NAME_CHARACTERS_MAX}"
        reason = f"the length of '{name}' is {too_long}"
    elif not _LEGAL.issuperset(name):
        allowed = "ASCII alphanumerics, '.', '_' and '-'"
        reason = f"'{name}' contains one or more characters other than {allowed}"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_collision(name: str, existing: Iterable[str]) -> None:
    """ApiError for a name that differs from an existing one only by '.' and '_'.

    In the names of metrics both become the same character.
    """
    if "." not in name and "_" not in name:
        return
    unified = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == unified:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )


def plan_topic(
    topic: NewTopic,
    *,
    existing: Collection[str],
    pending: Sequence[Collection[str]],
    racks: Mapping[int, str | None],
    defaults: Defaults,
    validate_configs: ValidateConfigs,
    random: Random,
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition of a valid new topic; ApiError for an invalid one.

    `existing`: names of topics. `pending`: names that other requests are creating: this one must
    not collide with them ('.' and '_'). If one of them is the same, the tree refuses the second.
    `racks`: rack by live broker.
    """
    if topic.name == CLUSTER_METADATA:
        message = f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    check_topic_name(topic.name)
    if topic.name in existing:
        message = f"Topic '{topic.name}' already exists."
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, message)
    check_collision(topic.name, chain(existing, *pending))
    nulls = [key for key, value in topic.configs.items() if value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise ApiError(ErrorCode.INVALID_CONFIG, message)
    validate_configs(topic.configs)
    if topic.assignments:
        return _assigned(topic, racks)
    return _assign(topic, racks, defaults, random)


def _assign(
    topic: NewTopic, racks: Mapping[int, str | None], defaults: Defaults, random: Random
) -> dict[int, tuple[int, ...]]:
    factor, partitions = topic.replication_factor, topic.num_partitions
    if factor == USE_DEFAULT:
        factor = defaults.replication_factor
    if partitions == USE_DEFAULT:
        partitions = defaults.num_partitions
    if factor <= 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if partitions <= 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    if factor > len(racks):
        reason = too_few_brokers(factor, len(racks))
        message = f"Unable to replicate the partition {factor} time(s): {reason}"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return assign_replicas(racks, partitions, factor, random)


def too_few_brokers(factor: int, brokers: int) -> str:
    """Why `factor` replicas are too many: Apache Kafka's message. Kavka has no cordoned dirs."""
    return (
        f"The target replication factor of {factor} cannot be reached because only {brokers} "
        "broker(s) are registered or some brokers have all their log directories cordoned."
    )


def _assigned(topic: NewTopic, brokers: Collection[int]) -> dict[int, tuple[int, ...]]:
    for name, value in (
        ("replication factor", topic.replication_factor),
        ("numPartitions", topic.num_partitions),
    ):
        if value != USE_DEFAULT:
            message = f"A manual partition assignment was specified, but {name} was not set to -1."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
    factor: int | None = None
    assigned: dict[int, tuple[int, ...]] = {}
    for index, replicas in topic.assignments:
        if index in assigned:
            message = f"Found multiple manual partition assignments for partition {index}"
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        check_replicas(replicas, brokers, factor)
        factor = len(replicas)
        assigned[index] = replicas
    if any(index not in assigned for index in range(len(assigned))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return dict(sorted(assigned.items()))


def check_replicas(replicas: Sequence[int], brokers: Collection[int], factor: int | None) -> None:
    """ApiError INVALID_REPLICA_ASSIGNMENT for an invalid list of replicas of one partition.

    `factor` is the replication factor of the earlier partitions, None if any is allowed.
    """
    if wrong := _wrong_replicas(replicas, brokers, factor):
        message = f"The manual partition assignment includes {wrong}."
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _wrong_replicas(
    replicas: Sequence[int], brokers: Collection[int], factor: int | None
) -> str | None:
    if not replicas:
        return "an empty replica list"
    before: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in brokers:
            return f"broker {broker_id}, but no such broker is registered"
        if broker_id == before:
            return f"the broker {broker_id} more than once"
        before = broker_id
    if factor not in (None, len(replicas)):
        return (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {factor} replica(s)"
        )
    return None


def check_total(topics: Iterable[NewTopic], defaults: Defaults) -> None:
    """ApiError POLICY_VIOLATION if one request creates too many partitions."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == USE_DEFAULT:
            total += defaults.num_partitions
        else:
            total += max(0, topic.num_partitions)
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise too_many_partitions()


def too_many_partitions() -> ApiError:
    """The error for a request that creates more than `PARTITIONS_PER_REQUEST_MAX`."""
    message = "Excessively large number of partitions per request."
    return ApiError(ErrorCode.POLICY_VIOLATION, message)

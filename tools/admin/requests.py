"""Requests of several tools to brokers; what each means is said by its API in kavka.wire."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.wire.message import message


@message
class RequestedResource:
    resource_type: int
    resource_name: str
    configuration_keys: Sequence[str] | None = None


@message
class DescribeConfigsRequest:
    resources: Sequence[RequestedResource]
    include_synonyms: bool = False
    include_documentation: bool = False


@message
class ChangedConfig:
    name: str
    config_operation: int
    value: str | None


@message
class ChangedResource:
    resource_type: int
    resource_name: str
    configs: Sequence[ChangedConfig]


@message
class IncrementalAlterConfigsRequest:
    resources: Sequence[ChangedResource]
    validate_only: bool = False


@message
class ListGroupsRequest:
    """`types_filter` since version 5, `states_filter` since version 4."""

    states_filter: Sequence[str] = ()
    types_filter: Sequence[str] = ()


@message
class DescribeGroupsRequest:
    groups: Sequence[str]
    include_authorized_operations: bool = False


@message
class ConsumerGroupDescribeRequest:
    group_ids: Sequence[str]
    include_authorized_operations: bool = False


@message
class RequestedLogs:
    topic: str
    partitions: Sequence[int]


@message
class DescribeLogDirsRequest:
    """`topics`: all if None."""

    topics: Sequence[RequestedLogs] | None = None


@message
class ListTransactionsRequest:
    """`duration_filter` since version 1, `transactional_id_pattern` since version 2."""

    state_filters: Sequence[str] = ()
    producer_id_filters: Sequence[int] = ()
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


@message
class DescribeTransactionsRequest:
    transactional_ids: Sequence[str]


@message
class ProducersOfTopic:
    name: str
    partition_indexes: Sequence[int]


@message
class DescribeProducersRequest:
    topics: Sequence[ProducersOfTopic]

"""AddPartitionsToTxn: adds partitions that a transaction is going to write to (KIP-98).

Promises: all partitions of a transaction are added, or none: if one does not exist, or the client
may not write to it, the others get OPERATION_NOT_ATTEMPTED. Versions from 4 on are for brokers,
which may also verify that partitions have been added (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import INTERNAL_TOPICS
from kavka.server.coordinators.transaction_coordinator import add_partitions_operation
from kavka.server.handlers.common.coordinator_calls import CoordinatorCalls
from kavka.server.handlers.common.transaction_calls import check_id, client_code
from kavka.server.request.context import RequestContext
from kavka.txncoord.transaction_requests import EPOCH_BUMPED_SINCE, AddPartitions
from kavka.wire.apis.add_partitions_to_txn import (
    API,
    BATCHED_SINCE,
    FENCED_SINCE,
    AddPartitionsToTxnResponse,
    PartitionResult,
    TopicResult,
    TransactionResult,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

PARTITIONS_PER_STEP: Final = 2_000
"""Partitions checked in one slice."""

TRANSACTIONS_PER_STEP: Final = 20
"""Transactions whose coordinator is called in one slice."""

TopicPartition: TypeAlias = tuple[str, int]
"""Topic and index."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    is_batched = context.version >= BATCHED_SINCE
    if is_batched:
        kind = ResourceType.CLUSTER
        if not broker.authorizer.allows(context, Operation.CLUSTER_ACTION, kind, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        transactions = [_of_broker(transaction) for transaction in request.transactions]
    else:
        check_id(broker, context, Operation.WRITE, request.v3_and_below_transactional_id)
        transactions = [_of_client(request)]
    additions = [_Addition(broker, context, transaction) for transaction in transactions]
    calls = CoordinatorCalls(broker, API)

    def steps() -> Steps[None]:
        for number, addition in enumerate(additions, 1):
            yield from addition.submit(calls)
            if number % TRANSACTIONS_PER_STEP == 0:
                yield None

    def respond() -> Steps[AddPartitionsToTxnResponse]:
        results = []
        for number, addition in enumerate(additions, 1):
            results.append(
                TransactionResult(addition.transactional_id, (yield from addition.results))
            )
            if number % TRANSACTIONS_PER_STEP == 0:
                yield None
        if is_batched:
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)

    return calls.run(context, steps(), respond)


class _Transaction(NamedTuple):
    """What the request has of one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: Sequence[Any]
    verify_only: bool
    version: int
    """The transaction version of the client."""


def _of_client(request: Any) -> _Transaction:
    return _Transaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        request.v3_and_below_topics,
        False,
        0,
    )


def _of_broker(transaction: Any) -> _Transaction:
    return _Transaction(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.topics,
        transaction.verify_only,
        EPOCH_BUMPED_SINCE,
    )


class _Addition:
    """The partitions to add to one transaction."""

    def __init__(self, broker: Broker, context: RequestContext, transaction: _Transaction) -> None:
        self.transactional_id: Final = transaction.transactional_id
        self._broker: Final = broker
        self._context: Final = context
        self._transaction: Final = transaction
        self._partitions: Sequence[TopicPartition] = ()
        self.results: Steps[Sequence[TopicResult]]
        """Builds the response, once the result is known."""

    def submit(self, calls: CoordinatorCalls) -> Steps[None]:
        """Check the partitions in slices, and call the coordinator."""
        codes: dict[TopicPartition, ErrorCode] = {}
        for number, (partition, code) in enumerate(self._check_partitions(), 1):
            codes[partition] = code
            if number % PARTITIONS_PER_STEP == 0:
                yield None
        self._partitions = list(codes)
        if any(codes.values()):
            missed = ErrorCode.OPERATION_NOT_ATTEMPTED
            self.results = _each_once(
                (partition, code or missed) for partition, code in codes.items()
            )
        elif not self.transactional_id:
            self._failed(ErrorCode.INVALID_REQUEST)
        else:
            calls.submit(self._call, self._responded, self._failed)

    def _check_partitions(self) -> Iterator[tuple[TopicPartition, ErrorCode]]:
        for topic in self._transaction.topics:
            name = topic.name
            known = self._broker.metadata.image.topics.get(name)
            may = self._may_write(name)
            for index in topic.partitions:
                code = ErrorCode.NONE
                if not may:
                    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif known is None or known.partition(index) is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                yield (name, index), code

    def _may_write(self, topic: str) -> bool:
        """Brokers may, as they have already authorized their client; clients may not write to
        internal topics."""
        if self._context.version >= BATCHED_SINCE:
            return True
        allows = self._broker.authorizer.allows
        return topic not in INTERNAL_TOPICS and allows(
            self._context, Operation.WRITE, ResourceType.TOPIC, topic
        )

    def _call(self) -> Any:
        add_request = AddPartitions(
            self.transactional_id,
            self._transaction.producer_id,
            self._transaction.producer_epoch,
            self._partitions,
            self._transaction.version,
        )
        transactions = self._broker.transactions
        if self._transaction.verify_only:
            return transactions.read(
                self.transactional_id, lambda shard, _: shard.verify(add_request)
            )
        return transactions.call(self.transactional_id, add_partitions_operation(add_request))

    def _responded(self, codes: Sequence[ErrorCode] | None) -> None:
        if codes is None:
            self._all(ErrorCode.NONE)
        else:
            self.results = _each_once(zip(self._partitions, codes, strict=True))

    def _failed(self, code: ErrorCode) -> None:
        self._all(client_code(code, self._context, FENCED_SINCE))

    def _all(self, code: ErrorCode) -> None:
        """Set the same result for all partitions: in the form of the request, except when only
        verifying."""
        if self._transaction.verify_only:
            self.results = _each_once((partition, code) for partition in self._partitions)
        else:
            self.results = _as_requested(self._transaction.topics, code)


def _each_once(codes: Iterable[tuple[TopicPartition, ErrorCode]]) -> Steps[list[TopicResult]]:
    topics: list[TopicResult] = []
    by_name: dict[str, list[PartitionResult]] = {}
    for number, ((name, index), code) in enumerate(codes, 1):
        partitions = by_name.get(name)
        if partitions is None:
            partitions = by_name[name] = []
            topics.append(TopicResult(name, partitions))
        partitions.append(PartitionResult(index, code))
        if number % PARTITIONS_PER_STEP == 0:
            yield None
    return topics


def _as_requested(requested: Sequence[Any], code: ErrorCode) -> Steps[list[TopicResult]]:
    topics: list[TopicResult] = []
    number = 0
    for topic in requested:
        partitions: list[PartitionResult] = []
        topics.append(TopicResult(topic.name, partitions))
        for index in topic.partitions:
            partitions.append(PartitionResult(index, code))
            number += 1
            if number % PARTITIONS_PER_STEP == 0:
                yield None
    return topics

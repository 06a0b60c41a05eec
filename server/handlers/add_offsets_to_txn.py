"""AddOffsetsToTxn: a transaction is going to commit offsets of a group (KIP-98).

Promises: the group's partition of `__consumer_offsets` is added to the transaction, as by
AddPartitionsToTxn. Clients of the newer protocol (KIP-890) do not need it: TxnOffsetCommit adds
the partition.
"""

from __future__ import annotations

from typing import Any

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import GROUP_TOPIC
from kavka.server.coordinators.transaction_coordinator import add_partitions_operation
from kavka.server.handlers.common.transaction_calls import call_coordinator, check_id
from kavka.server.request.context import RequestContext
from kavka.txncoord.transaction_requests import AddPartitions
from kavka.wire.apis.add_offsets_to_txn import FENCED_SINCE, AddOffsetsToTxnResponse
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    check_id(broker, context, Operation.WRITE, request.transactional_id)
    group_id = request.group_id
    if not broker.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    add_request = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(GROUP_TOPIC, broker.groups.partition_of(group_id))],
    )
    return call_coordinator(
        broker,
        context,
        add_request.transactional_id,
        add_partitions_operation(add_request),
        _response,
        AddOffsetsToTxnResponse,
        fenced_since=FENCED_SINCE,
    )


def _response(nothing: None) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse()

"""What the handlers of requests from a controller, and to it, have in common."""

from __future__ import annotations

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import NO_EPOCH
from kavka.server.replica.controller_requests import ControllerRequests
from kavka.server.request.context import RequestContext
from kavka.wire.errors import ApiError, ErrorCode


def check_cluster_action(broker: Broker, context: RequestContext) -> None:
    """ApiError unless the principal may act as a broker."""
    permission = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    if not broker.authorizer.allows(context, *permission):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def control_of(broker: Broker, context: RequestContext, broker_epoch: int) -> ControllerRequests:
    """What applies a controller's request for this broker in `broker_epoch`. ApiError: if that is
    the epoch of an earlier process (KIP-380), or the sender may not send it."""
    check_cluster_action(broker, context)
    if broker_epoch != NO_EPOCH and broker_epoch < broker.epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
    assert broker.control is not None, "a standalone broker does not serve it"
    return broker.control

"""A broker's start-up in the coordination tree: persistent nodes, cluster id, registration."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kavka.seams import Clock
from kavka.zktree import paths
from kavka.zktree.api import (
    SESSION_ENDED,
    Coordination,
    Create,
    Created,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    SessionEvent,
    SetData,
)

logger = logging.getLogger(__name__)


async def ensure_paths(
    coordination: Coordination, required: Mapping[str, bytes | None]
) -> list[str]:
    """Create missing nodes, with the given data, and their ancestors, in one transaction.

    Returns those of `required` that were created.
    """
    nodes: dict[str, bytes | None] = {}
    for path, data in required.items():
        nodes |= {above: None for above in paths.ancestors(path) if above not in nodes}
        nodes[path] = data
    while True:
        results = [(path, coordination.exists(path)) for path in nodes]
        missing = [path for path, result in results if await result is None]
        try:
            if missing:
                await coordination.multi([Create(path, nodes[path]) for path in missing])
        except MultiFailed as failed:
            if not isinstance(failed.cause, NodeExists):
                raise
            continue  # another broker is starting too
        return [path for path in missing if path in required]


async def prepare_tree(coordination: Coordination) -> None:
    """Create the paths that Apache Kafka creates at each broker's start."""
    await ensure_paths(coordination, dict.fromkeys(paths.PERSISTENT))


async def cluster_id(coordination: Coordination, proposed: str) -> str:
    """The cluster's id; `proposed` if there was none yet."""
    made = await ensure_paths(coordination, {paths.CLUSTER_ID: paths.encode_cluster_id(proposed)})
    if made:
        return proposed
    return paths.decode_cluster_id((await coordination.get(paths.CLUSTER_ID)).data)


async def generate_broker_id(coordination: Coordination, reserved_max: int) -> int:
    """A new broker id, above `reserved.broker.max.id`. As in Apache Kafka it comes from the version
    that a node gets: each one is given once."""
    interruptions = 0

    def on_session(event: SessionEvent) -> None:
        nonlocal interruptions
        interruptions += 1

    coordination.on_session(on_session)
    while True:
        before = interruptions
        stat = await coordination.set(paths.BROKER_SEQUENCE, b"")
        # What came of a write whose connection was lost is read off the node (`lost_writes`), which
        # another broker may have set since.
        if interruptions == before:
            return stat.version + reserved_max


async def register_broker(
    coordination: Coordination,
    broker_id: int,
    info: paths.BrokerInfo,
    *,
    clock: Clock,
    takes_over: bool = False,
) -> int:
    """Register for the lifetime of the session. Returns the broker epoch (KIP-380).

    NodeExists if a broker with this id is registered in another session. With `takes_over` that is
    replaced if it has the same addresses, which the caller has just bound: it is of an earlier
    process, whose session has not expired yet.
    """
    path = paths.broker(broker_id)
    data = paths.encode_broker(info, clock.now_ms())
    # In two steps as Apache Kafka does it, so that the node's version is the same.
    creation: list[Op] = [Create(path, ephemeral=True), SetData(path, data, 0)]
    try:
        created, _ = await coordination.multi(creation)
    except MultiFailed as failed:
        if not isinstance(failed.cause, NodeExists):
            raise failed.cause from None
        exists = failed.cause
    else:
        assert isinstance(created, Created)
        return created.stat.czxid
    try:
        there = await coordination.get(path)
    except NoNode:  # the other session has just expired
        return await register_broker(
            coordination, broker_id, info, clock=clock, takes_over=takes_over
        )
    if there.stat.ephemeral_owner == coordination.session_id:
        return there.stat.czxid
    if not takes_over or paths.decode_broker(there.data) != info:
        raise exists
    logger.info("broker %d: taking over the registration of its earlier process", broker_id)
    try:
        _, created, _ = await coordination.multi([Delete(path, there.stat.version), *creation])
    except MultiFailed as failed:
        raise failed.cause from None
    assert isinstance(created, Created)
    return created.stat.czxid


async def propagate_log_dir_event(coordination: Coordination, broker_id: int) -> None:
    """Notify the controller that a log directory of this broker has failed (KIP-112)."""
    event = paths.encode_log_dir_event(broker_id)
    try:
        await coordination.create(paths.LOG_DIR_EVENT_PREFIX, event, sequential=True)
    except SESSION_ENDED:
        return  # the next start reports every partition

"""What a broker does in the coordination tree at its start, before there is a controller."""

from __future__ import annotations

from collections.abc import Mapping

from kavka.seams import Clock
from kavka.zktree import paths
from kavka.zktree.api import (
    ConnectionLost,
    Coordination,
    Create,
    Created,
    MultiFailed,
    NodeExists,
    SessionExpired,
    SetData,
)


async def ensure_paths(coordination: Coordination, wanted: Mapping[str, bytes | None]) -> list[str]:
    """Make the nodes that are not there, and those above them, in one transaction.

    Those of `wanted` that it made; they have the data given for them.
    """
    nodes: dict[str, bytes | None] = {}
    for path, data in wanted.items():
        nodes |= {above: None for above in paths.ancestors(path) if above not in nodes}
        nodes[path] = data
    while True:
        answers = [(path, coordination.exists(path)) for path in nodes]
        missing = [path for path, answer in answers if await answer is None]
        try:
            if missing:
                await coordination.multi([Create(path, nodes[path]) for path in missing])
        except MultiFailed as failed:
            if not isinstance(failed.cause, NodeExists):
                raise
            continue  # another broker starts too
        return [path for path in missing if path in wanted]


async def prepare_tree(coordination: Coordination) -> None:
    """Make the paths that Apache Kafka makes at each broker's start."""
    await ensure_paths(coordination, dict.fromkeys(paths.PERSISTENT))


async def cluster_id(coordination: Coordination, proposed: str) -> str:
    """The cluster's id; `proposed` becomes it when there is none yet."""
    made = await ensure_paths(coordination, {paths.CLUSTER_ID: paths.encode_cluster_id(proposed)})
    if made:
        return proposed
    return paths.decode_cluster_id((await coordination.get(paths.CLUSTER_ID)).data)


async def register_broker(
    coordination: Coordination, broker_id: int, info: paths.BrokerInfo, *, clock: Clock
) -> int:
    """Register until the session ends; the broker epoch (KIP-380).

    NodeExists when a broker of this id is registered in another session.
    """
    path = paths.broker(broker_id)
    data = paths.encode_broker(info, clock.now_ms())
    try:
        # In two steps as Apache Kafka does it, so that the node's version is the same.
        created, _ = await coordination.multi(
            [Create(path, ephemeral=True), SetData(path, data, 0)]
        )
    except MultiFailed as failed:
        if not isinstance(failed.cause, NodeExists):
            raise failed.cause from None
        stat = await coordination.exists(path)
        if stat is None or stat.ephemeral_owner != coordination.session_id:
            raise failed.cause from None
        return stat.czxid
    assert isinstance(created, Created)
    return created.stat.czxid


async def propagate_log_dir_event(coordination: Coordination, broker_id: int) -> None:
    """Have the controller ask this broker which of its partitions it can still serve (KIP-112)."""
    event = paths.encode_log_dir_event(broker_id)
    try:
        await coordination.create(paths.LOG_DIR_EVENT_PREFIX, event, sequential=True)
    except (ConnectionLost, SessionExpired):
        return  # at the next start every partition is asked for

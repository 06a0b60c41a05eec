"""Blocks of producer ids; each is allocated only once in the cluster's lifetime."""

from __future__ import annotations

from typing import Final

from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import BadVersion, Coordination
from kavka.zktree.paths import ProducerIdBlock

BLOCK_IDS: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1


async def next_block(coordination: Coordination, broker_id: int) -> ProducerIdBlock:
    """Allocate the next block to a broker. ApiError when all ids have been allocated.

    The write is conditional on the node's version, so two brokers can't get the same block.
    """
    while True:
        data, stat = await coordination.get(paths.PRODUCER_ID_BLOCK)
        first = paths.decode_producer_id_block(data).last + 1 if data else 0
        if first > PRODUCER_ID_MAX - BLOCK_IDS:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
        block = ProducerIdBlock(broker_id, first, first + BLOCK_IDS - 1)
        try:
            await coordination.set(
                paths.PRODUCER_ID_BLOCK, paths.encode_producer_id_block(block), stat.version
            )
        except BadVersion:
            continue  # another broker took it
        return block

"""Offsets in the coordination tree, where the first consumers stored them themselves.

OffsetCommit 0 and OffsetFetch 0 read and write them through a broker. They are without group
members, and separate from the offsets in `__consumer_offsets`.
"""

from __future__ import annotations

from typing import Final

from kavka.server.coordination.broker_registration import ensure_paths
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import Coordination, CoordinationError, NoNode
from kavka.zktree.tree import check_path


class ZooKeeperOffsets:
    """Reads and writes the same nodes as Apache Kafka up to 3.9."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination: Final = coordination

    async def put(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """Store an offset durably. ApiError if that fails."""
        path, data = paths.consumer_offset(group_id, topic, partition), b"%d" % offset
        try:
            while True:
                try:
                    await self._coordination.set(path, data)
                    return
                except NoNode:
                    if await ensure_paths(self._coordination, {path: data}):
                        return
        except CoordinationError as failure:
            raise _refusal(path, failure) from failure

    async def get(self, group_id: str, topic: str, partition: int) -> int | None:
        """The stored offset, or None. ApiError."""
        path = paths.consumer_offset(group_id, topic, partition)
        try:
            check_path(path)
            data = (await self._coordination.get(path)).data
            return None if data is None else int(data)
        except NoNode:
            return None
        except (CoordinationError, ValueError) as failure:
            raise _refusal(path, failure) from failure


def _refusal(path: str, failure: Exception) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{path}: {failure!r}")

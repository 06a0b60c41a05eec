"""How many partitions the topics of the coordinators have.

The hash of a group's name modulo this number is the partition that the group belongs to. Metadata
may lack partitions that the controller has yet to describe, as after a start of the whole cluster:
with the number of those that are there, a group would belong to another partition for a moment, and
what it commits then would be lost. So the numbers are read from the tree before this broker leads
one of the partitions. (Apache Kafka reads them once, at the start.)
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from kavka.server.cluster.control_messages import UpdateMetadata, is_deletion
from kavka.server.cluster.metadata_cache import GROUP_TOPIC, TRANSACTION_TOPIC, MetadataCache
from kavka.zktree import paths
from kavka.zktree.api import Coordination, NoNode

logger = logging.getLogger(__name__)

_NAMES: Final = (GROUP_TOPIC, TRANSACTION_TOPIC)


class InternalTopics:
    """Knows the numbers, from the tree or, if they are higher there, from the metadata."""

    def __init__(self, coordination: Coordination, metadata: MetadataCache) -> None:
        self._coordination = coordination
        self._metadata = metadata
        self._stored: dict[str, int] = {}

    async def before_leading(self, topics: Collection[str]) -> None:
        """Read the numbers if this broker may be about to lead partitions of the coordinators'
        topics: `topics` are those of a LeaderAndIsr. SESSION_ENDED."""
        if any(name in topics for name in _NAMES):
            await self.load()

    async def load(self) -> None:
        """Read the numbers. SESSION_ENDED."""
        for name in _NAMES:
            try:
                node = await self._coordination.get(paths.topic(name))
                self._stored[name] = len(paths.decode_topic(node.data).replicas)
            except NoNode:
                self._stored.pop(name, None)
            except ValueError:
                logger.exception("can't read the partitions of %s", name)

    def metadata_changed(self, update: UpdateMetadata) -> None:
        """The controller has sent an update: a topic that was deleted may come again with fewer
        partitions."""
        for topic in update.topic_states:
            if is_deletion(topic):
                self._stored.pop(topic.topic_name, None)

    def partition_count(self, name: str) -> int | None:
        """None if the topic does not exist."""
        topic = self._metadata.image.topics.get(name)
        described = 0 if topic is None else len(topic.partitions)
        return max(described, self._stored.get(name, 0)) or None

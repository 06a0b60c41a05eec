"""What the rules of groups may know of topics; and the topic that groups live in."""

from __future__ import annotations

import logging
from typing import Final
from uuid import UUID

from kavka.server.config import BrokerSettings
from kavka.server.config.offset_topic_rows import REPLICATION_FACTOR
from kavka.server.controller.new_topics import NewTopic
from kavka.server.controller.runner import Controller
from kavka.server.metadata_cache import MetadataCache
from kavka.server.topics import GROUP_TOPIC
from kavka.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_CREATE_TIMEOUT_MS: Final = 15_000


class KnownTopics:
    """`kavka.groupcoord.state.Topics` by what this broker tells clients."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def names(self) -> list[str]:
        """All of them."""
        return list(self._metadata.image.topics)

    def partition_count(self, topic: str) -> int | None:
        """None if there is no such topic."""
        known = self._metadata.image.topics.get(topic)
        return None if known is None else len(known.partitions)

    def topic_id(self, topic: str) -> UUID | None:
        """None if there is no such topic."""
        known = self._metadata.image.topics.get(topic)
        return None if known is None else known.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """None if there is no such topic."""
        return self._metadata.image.names_by_id.get(topic_id)

    def racks(self, topic: str, partition: int) -> list[str]:
        """Of the brokers that have a replica, as far as they have one."""
        image = self._metadata.image
        known = image.topics.get(topic)
        found = None if known is None else known.partition(partition)
        brokers = [] if found is None else [image.brokers.get(one) for one in found.replicas]
        return [one.rack for one in brokers if one is not None and one.rack is not None]


async def create_group_topic(controller: Controller, settings: BrokerSettings) -> None:
    """Make `__consumer_offsets` if it is not there. A refusal goes to the log."""
    factor = settings.offsets_topic_replication_factor
    if REPLICATION_FACTOR not in settings.given:
        factor = 1  # there is no second broker, nor will there be one
    topic = NewTopic(
        GROUP_TOPIC,
        settings.offsets_topic_num_partitions,
        factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        },
    )
    results = await controller.create_topics(
        [topic], timeout_ms=_CREATE_TIMEOUT_MS, validate_only=False
    )
    code, message, *_ = results[GROUP_TOPIC]
    if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        logger.error("no groups are served, %s can't be made: %s", GROUP_TOPIC, message or code)

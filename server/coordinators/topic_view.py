"""The topic metadata that the group coordinator uses."""

from __future__ import annotations

from uuid import UUID

from kavka.server.cluster.metadata_cache import MetadataCache


class KnownTopics:
    """`kavka.groupcoord.state.Topics`, read from this broker's metadata cache."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def names(self) -> list[str]:
        """All topics."""
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
        """The racks of the brokers that have a replica, without brokers that have no rack."""
        image = self._metadata.image
        known = image.topics.get(topic)
        found = None if known is None else known.partition(partition)
        brokers = (
            [] if found is None else [image.brokers.get(broker_id) for broker_id in found.replicas]
        )
        return [broker.rack for broker in brokers if broker is not None and broker.rack is not None]

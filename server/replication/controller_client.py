"""This broker's requests to the controller: in process if it is the controller, else over the
wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kavka.client.errors import NotConnected, UnsupportedVersion
from kavka.server.cluster.control_messages import NO_TOPIC_ID, TopicPartition
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.controller.controller import Controller
from kavka.server.controller.events import RequestedIsr, StoredState
from kavka.server.controller.topic_validation import NewTopic, TopicResult
from kavka.server.replication.broker_clients import Peers
from kavka.server.replication.isr_changes import AlteredIsr, Proposal
from kavka.wire.api import Api
from kavka.wire.apis import alter_partition, controlled_shutdown, create_topics
from kavka.wire.errors import ApiError, ErrorCode


class ControllerClient:
    """`ControllerPort` and `TopicCreator`: the controller that this broker knows from
    UpdateMetadata."""

    def __init__(
        self,
        controller: Controller,
        metadata: MetadataCache,
        broker_id: int,
        *,
        peers: Peers,
        isr_peers: Peers,
    ) -> None:
        """`isr_peers`: connections for AlterPartition alone, so that it never waits behind a
        request that takes its time, as in Apache Kafka."""
        self._controller = controller
        self._metadata = metadata
        self._broker_id = broker_id
        self.broker_epoch = -1
        """Of this broker, once it is registered."""
        self._peers = peers
        self._isr_peers = isr_peers

    async def alter_partitions(
        self, proposals: Mapping[TopicPartition, Proposal]
    ) -> Mapping[TopicPartition, AlteredIsr]:
        """As `ControllerPort`."""
        if self._controller.is_active:
            requests = {
                tp: RequestedIsr(
                    self._broker_id,
                    proposal.topic_id,
                    proposal.proposed.leader_epoch,
                    proposal.proposed.partition_epoch,
                    proposal.proposed.isr,
                )
                for tp, proposal in proposals.items()
            }
            sender = self._broker_id, self.broker_epoch
            results = await self._controller.alter_isrs(sender, requests)
            return {tp: _altered(result) for tp, result in results.items()}
        proposed = self._proposed(proposals)
        response = await self._ask(alter_partition.API, proposed, self._isr_peers)
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code))
        names = {proposal.topic_id: tp.topic for tp, proposal in proposals.items()}
        return {
            TopicPartition(names[topic.topic_id], partition.partition_index): AlteredIsr(
                ErrorCode(partition.error_code),
                partition.leader_epoch,
                tuple(partition.isr),
                partition.partition_epoch,
            )
            for topic in response.topics
            if topic.topic_id in names
            for partition in topic.partitions
        }

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
    ) -> Mapping[str, TopicResult]:
        """As `TopicCreator`. NOT_CONTROLLER for each topic while no controller can be reached."""
        if self._controller.is_active:
            return await self._controller.create_topics(
                topics, timeout_ms=timeout_ms, validate_only=validate_only
            )
        wire_topics = [_wire_topic(topic) for topic in topics]
        request = create_topics.CreateTopicsRequest(wire_topics, timeout_ms, validate_only)
        try:
            response = await self._ask(create_topics.API, request, self._peers)
        except (ConnectionError, UnsupportedVersion) as failure:
            failed = TopicResult(ErrorCode.NOT_CONTROLLER, f"The controller: {failure}")
            return {topic.name: failed for topic in topics}
        return {
            topic.name: TopicResult(
                ErrorCode(topic.error_code),
                topic.error_message,
                topic.topic_id or NO_TOPIC_ID,
                topic.num_partitions,
                topic.replication_factor,
            )
            for topic in response.topics
        }

    async def shut_down(self) -> int:
        """Have other brokers lead what this one leads (ControlledShutdown). Returns the number of
        partitions that it still leads. ApiError, ConnectionError, UnsupportedVersion."""
        if self._controller.is_active:
            return len(await self._controller.shut_down(self._broker_id, self.broker_epoch))
        request = controlled_shutdown.ControlledShutdownRequest(self._broker_id, self.broker_epoch)
        response = await self._ask(controlled_shutdown.API, request, self._peers)
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code))
        return len(response.remaining_partitions)

    def has_others(self) -> bool:
        """Whether other brokers are live, as far as this one knows."""
        return any(broker_id != self._broker_id for broker_id in self._metadata.image.brokers)

    def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._peers.close()
        self._isr_peers.close()

    async def _ask(self, api: Api, request: Any, peers: Peers) -> Any:
        client = peers.client(self._metadata.image.controller_id)
        if client is None:
            raise NotConnected("no controller is known")
        return await client.ask(api, request)

    def _proposed(self, proposals: Mapping[TopicPartition, Proposal]) -> Any:
        topics: dict[UUID, list[alter_partition.RequestedPartition]] = {}
        for tp, proposal in proposals.items():
            isr = [alter_partition.IsrMember(broker_id) for broker_id in proposal.proposed.isr]
            topics.setdefault(proposal.topic_id, []).append(
                alter_partition.RequestedPartition(
                    tp.partition,
                    proposal.proposed.leader_epoch,
                    isr,
                    proposal.proposed.partition_epoch,
                )
            )
        return alter_partition.AlterPartitionRequest(
            self._broker_id,
            self.broker_epoch,
            [alter_partition.RequestedTopic(topic_id, parts) for topic_id, parts in topics.items()],
        )


def _altered(result: StoredState | ApiError) -> AlteredIsr:
    if isinstance(result, ApiError):
        return AlteredIsr(result.code)
    return AlteredIsr(ErrorCode.NONE, result.state.leader_epoch, result.state.isr, result.version)


def _wire_topic(topic: NewTopic) -> create_topics.NewTopic:
    assignments = [create_topics.Assignment(*assignment) for assignment in topic.assignments]
    configs = [create_topics.NewConfig(*config) for config in topic.configs.items()]
    return create_topics.NewTopic(
        topic.name, topic.num_partitions, topic.replication_factor, assignments, configs
    )

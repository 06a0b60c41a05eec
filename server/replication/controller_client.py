"""The controller as this broker asks it: in this process, or over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kavka.client.broker_client import BrokerClient
from kavka.client.errors import NotConnected
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.controller.controller import Controller
from kavka.server.controller.events import StoredState, WantedIsr
from kavka.server.replication.isr_changes import AlteredIsr, Proposal
from kavka.wire.apis import alter_partition
from kavka.wire.errors import ApiError, ErrorCode


class ControllerClient:
    """`ControllerPort`: the controller that this broker knows from UpdateMetadata."""

    def __init__(
        self,
        controller: Controller,
        metadata: MetadataCache,
        broker_id: int,
        broker_epoch: Callable[[], int],
        connect: Callable[[int], BrokerClient | None],
    ) -> None:
        """`connect` gives a client of a broker; None as long as no address is known."""
        self._controller = controller
        self._metadata = metadata
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._connect = connect
        self._client: tuple[int, BrokerClient] | None = None

    async def alter_partitions(
        self, proposals: Mapping[TopicPartition, Proposal]
    ) -> Mapping[TopicPartition, AlteredIsr]:
        """As `ControllerPort`."""
        if self._controller.is_active:
            wanted = {
                tp: WantedIsr(
                    self._broker_id,
                    one.topic_id,
                    one.wanted.leader_epoch,
                    one.wanted.partition_epoch,
                    one.wanted.isr,
                )
                for tp, one in proposals.items()
            }
            sender = self._broker_id, self._broker_epoch()
            results = await self._controller.alter_isrs(sender, wanted)
            return {tp: _altered(result) for tp, result in results.items()}
        response = await self._ask(proposals)
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code))
        names = {one.topic_id: tp.topic for tp, one in proposals.items()}
        return {
            TopicPartition(names[topic.topic_id], one.partition_index): AlteredIsr(
                ErrorCode(one.error_code), one.leader_epoch, tuple(one.isr), one.partition_epoch
            )
            for topic in response.topics
            if topic.topic_id in names
            for one in topic.partitions
        }

    def close(self) -> None:
        """Ask nothing any more."""
        if self._client is not None:
            self._client[1].close()

    async def _ask(self, proposals: Mapping[TopicPartition, Proposal]) -> Any:
        controller_id = self._metadata.image.controller_id
        if self._client is not None and self._client[0] != controller_id:
            self._client[1].close()
            self._client = None
        if self._client is None:
            client = self._connect(controller_id)
            if client is None:
                raise NotConnected("no controller is known")
            self._client = controller_id, client
        try:
            return await self._client[1].ask(alter_partition.API, self._request(proposals))
        except ConnectionError:
            self._client[1].close()  # the next one may have another address
            self._client = None
            raise

    def _request(self, proposals: Mapping[TopicPartition, Proposal]) -> Any:
        topics: dict[UUID, list[alter_partition.AskedPartition]] = {}
        for tp, one in proposals.items():
            isr = [alter_partition.IsrMember(broker_id) for broker_id in one.wanted.isr]
            topics.setdefault(one.topic_id, []).append(
                alter_partition.AskedPartition(
                    tp.partition, one.wanted.leader_epoch, isr, one.wanted.partition_epoch
                )
            )
        return alter_partition.AlterPartitionRequest(
            self._broker_id,
            self._broker_epoch(),
            [alter_partition.AskedTopic(topic_id, parts) for topic_id, parts in topics.items()],
        )


def _altered(result: StoredState | ApiError) -> AlteredIsr:
    if isinstance(result, ApiError):
        return AlteredIsr(result.code)
    return AlteredIsr(ErrorCode.NONE, result.state.leader_epoch, result.state.isr, result.version)

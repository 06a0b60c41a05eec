"""The group coordinator: finds the state machine of a group, and runs operations on it.

A group belongs to one partition of `__consumer_offsets`, by the hash of its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.groupcoord.counts import Counts
from kavka.seams import Random
from kavka.server.cluster.control_messages import LEADER_DURING_DELETE, UpdateMetadata
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.cluster.internal_topics import InternalTopics
from kavka.server.cluster.metadata_cache import GROUP_TOPIC, MetadataCache
from kavka.server.config.live import LiveSettings
from kavka.server.config.offset_topic_rows import REPLICATION_FACTOR
from kavka.server.controller.topic_validation import NewTopic, TopicCreator
from kavka.server.coordinators.base import Coordinator
from kavka.server.coordinators.topic_view import KnownTopics
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.wire.compression import Codec

if TYPE_CHECKING:
    from kavka.groupcoord.shard import GroupShard
    from kavka.server.cluster.first_metadata import FirstMetadata
    from kavka.server.coordinators.journal_runner import JournalRunner, RunnerResources

    Runner = JournalRunner[GroupShard]


_CONSUMER: Final = "consumer"

MODULES: Final = (
    "kavka.wire.fields",
    "kavka.log.journal",
    "kavka.groupcoord.group",
    "kavka.groupcoord.offset_records",
    "kavka.groupcoord.offsets",
    "kavka.groupcoord.expiry",
    "kavka.groupcoord.classic.group_records",
    "kavka.groupcoord.classic.group",
    "kavka.groupcoord.classic.rebalancing",
    "kavka.groupcoord.classic.joining",
    "kavka.groupcoord.classic.protocol",
    "kavka.groupcoord.consumer.consumer_group_records",
    "kavka.groupcoord.consumer.group",
    "kavka.groupcoord.consumer.group_index",
    "kavka.groupcoord.consumer.classic_members",
    "kavka.groupcoord.consumer.replay",
    "kavka.groupcoord.consumer.protocol",
    "kavka.groupcoord.shard",
    "kavka.server.coordinators.journal_loader",
    "kavka.server.coordinators.serial_queue",
    "kavka.server.coordinators.journal_port",
    "kavka.server.coordinators.journal_runner",
)
"""The group coordinator's modules, each after those that it imports: 25 ms in one go."""


class GroupCoordinator(Coordinator["GroupShard"]):
    """All groups of which this broker is the coordinator."""

    topic = GROUP_TOPIC
    entities = "groups"
    modules = MODULES
    factor_setting = REPLICATION_FACTOR

    def __init__(
        self,
        live: LiveSettings,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        internal_topics: InternalTopics,
        creator: TopicCreator,
        configs: EntityConfigs,
        random: Random,
    ) -> None:
        super().__init__(live, replicas, metadata, internal_topics, creator)
        self._configs = configs
        self._random = random
        self._topics = KnownTopics(metadata)
        self._deleted_meanwhile: dict[int, list[tuple[str, UUID]]] = {}
        """Topics (name, id) that were deleted while the groups of a partition were being loaded."""
        self.counts: Final = Counts()
        """Counts of events of groups, for the metrics."""
        self._first_metadata: FirstMetadata | None = None

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether members may use the consumer protocol (KIP-848)."""
        settings = self._live.now
        return settings.group_version > 0 and _CONSUMER in (
            settings.group_coordinator_rebalance_protocols
        )

    def load_once_described(self, first_metadata: FirstMetadata) -> None:
        """Load groups only when the controller has described the cluster to this broker. Before, a
        topic may seem to have fewer partitions than it has, and the others would be assigned to
        nobody."""
        self._first_metadata = first_metadata
        loading = self._load_once_described(first_metadata)
        self._replicas.tasks.spawn(loading, name="load of the groups")

    async def _load_once_described(self, first_metadata: FirstMetadata) -> None:
        await first_metadata.wait()
        await self._load_deferred()

    @property
    def _may_load(self) -> bool:
        first_metadata = self._first_metadata
        return super()._may_load and (first_metadata is None or first_metadata.is_complete)

    def _new_topic(self) -> NewTopic:
        settings = self._live.now
        return NewTopic(
            GROUP_TOPIC,
            settings.offsets_topic_num_partitions,
            self._replication_factor(REPLICATION_FACTOR, settings.offsets_topic_replication_factor),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )

    def _runner(self, replica: Replica, resources: RunnerResources) -> Runner:
        # imported when there are groups: see `kavka.server.runtime.lazy_imports`
        from kavka.groupcoord.shard import GroupShard
        from kavka.groupcoord.state import GroupsState
        from kavka.server.coordinators.journal_runner import JournalRunner, Settings

        now = self._live.now
        state = GroupsState(
            lambda: self._live.now,
            self._topics,
            self._random,
            self._configs.group,
            self.counts,
        )
        settings = Settings(
            commit_timeout_ms=now.offsets_commit_timeout_ms,
            codec=Codec(now.offsets_topic_compression_codec),
            load_bytes=now.offsets_load_buffer_size,
            base_sequence=0,
        )
        return JournalRunner(
            replica, GroupShard(state), settings, resources, on_loaded=self._loaded
        )

    # -- changes elsewhere ----------------------------------------------------------------

    def marker_appended(
        self, partition: int, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """Apply a transaction marker that was appended to a partition of the topic."""
        runner = self._runners.get(partition)
        if runner is not None:
            runner.marker_appended(producer_id, producer_epoch, committed)

    def metadata_changed(self, update: UpdateMetadata) -> None:
        """Topics have changed: notify the groups that subscribe to them, in slices. Groups that are
        being loaded get to know of deleted topics when they are loaded."""
        topics = [topic.topic_name for topic in update.topic_states]
        if not topics or not (self._runners or self._deferred):
            return
        deleted = [
            (topic.topic_name, topic.topic_id)
            for topic in update.topic_states
            if all(state.leader == LEADER_DURING_DELETE for state in topic.partition_states)
        ]
        active = [runner for runner in self._runners.values() if runner.is_active]
        if active:
            self._notify_soon(active, topics, deleted)
        if deleted:
            loading = [index for index, runner in self._runners.items() if runner.is_loading]
            for index in (*loading, *self._deferred):
                self._deleted_meanwhile.setdefault(index, []).extend(deleted)

    def _role_changed(self, replica: Replica) -> None:
        super()._role_changed(replica)
        index = replica.log.partition
        if index not in self._runners and index not in self._deferred:
            self._deleted_meanwhile.pop(index, None)  # another broker deletes their offsets

    def _loaded(self, runner: Runner) -> None:
        super()._loaded(runner)
        deleted = self._deleted_meanwhile.pop(runner.replica.log.partition, None)
        if deleted:
            self._notify_soon([runner], [name for name, _ in deleted], deleted)

    def _notify_soon(
        self, runners: Sequence[Runner], topics: Sequence[str], deleted: Sequence[tuple[str, UUID]]
    ) -> None:
        self._replicas.tasks.spawn(
            self._notify_groups(runners, topics, deleted), name="group metadata update"
        )

    async def _notify_groups(
        self, runners: Sequence[Runner], topics: Sequence[str], deleted: Sequence[tuple[str, UUID]]
    ) -> None:
        for runner in runners:
            if not runner.is_active or not runner.machine.state.groups:
                continue
            now_ms = runner.now_ms()
            if deleted:
                runner.machine.topics_deleted(deleted, now_ms)
            await runner.execute(runner.machine.metadata_changed(topics, now_ms))
            await self._replicas.tasks.sleep(0)

"""The controller's requests, applied to this broker: LeaderAndIsr, UpdateMetadata, StopReplica.

They come in process from this broker's own controller, and over the wire from another's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from kavka.log.errors import DeletionError, PartialCreateError, StorageError
from kavka.log.fs import FileSystem, is_fd_exhaustion
from kavka.log.partition_log import PartitionLog
from kavka.seams import Jobs, Pool, Tasks
from kavka.server.cluster.control_messages import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    LeaderAndIsr,
    LeaderAndIsrPartitionState,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
    StopReplica,
    StopReplicaPartitionState,
    StopReplicaResponse,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.cluster.internal_topics import InternalTopics
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.config import BrokerSettings, log_settings
from kavka.server.config.live import LiveSettings
from kavka.server.config.value_types import BadValue
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.partition_state import LeaderAndIsrState, PartitionState
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ErrorCode
from kavka.zktree.api import SESSION_ENDED
from kavka.zktree.paths import TOPIC_CONFIGS

logger = logging.getLogger(__name__)

PARTITIONS_PER_STEP: Final = 2
"""Partitions handled in one step; making a log takes 0.3 ms, and 2.5 where the file system is slow
to make directories."""


CONFIGURED_PER_STEP: Final = 500
"""Logs given other settings in one step, at 2 to 8 us each."""


SHORTAGE_RETRY_S: Final = 1.0
"""Delay before something is tried again that has failed for lack of file descriptors."""

_STOPPED: Final = ErrorCode.BROKER_NOT_AVAILABLE


class ControllerRequests:
    """`BrokerPort` of this broker. A request with an older controller epoch is refused as a
    whole."""

    def __init__(
        self,
        *,
        live: LiveSettings,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        topic_configs: EntityConfigs,
        internal_topics: InternalTopics,
        fs: FileSystem,
        tasks: Tasks,
        jobs: Jobs,
    ) -> None:
        self._live = live
        self._replicas = replicas
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._internal_topics = internal_topics
        self._fs = fs
        self._tasks = tasks
        self._jobs = jobs
        self._controller_epoch = -1
        self._closed = False
        self._to_retry: dict[
            TopicPartition, tuple[LeaderAndIsrTopicState, LeaderAndIsrPartitionState]
        ] = {}
        """Partitions of LeaderAndIsr requests that failed for lack of file descriptors, to be tried
        again."""
        self._is_retrying = False
        self.on_metadata: Final[list[Callable[[UpdateMetadata], object]]] = []
        """Called, in order, after each UpdateMetadata."""
        topic_configs.on_change(self._settings_changed)
        live.on_change(self._defaults_changed)

    def close(self) -> None:
        """The broker stops, and its logs are closed: from now on no log is created and no replica
        hosted, not even by a request in progress."""
        self._closed = True

    def _settings_changed(self, kind: str, name: str) -> None:
        """Apply a topic's new settings: at once, if it has up to CONFIGURED_PER_STEP logs here."""
        if kind == TOPIC_CONFIGS:
            self._configure_all(self._replicas.of_topic(name))

    def _defaults_changed(self, old: BrokerSettings, new: BrokerSettings) -> None:
        """Apply the broker's new defaults of topics."""
        if new.topic_defaults != old.topic_defaults:
            self._configure_all(list(self._replicas))

    def _configure_all(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas[:CONFIGURED_PER_STEP]:
            self._configure(replica)
        if rest := replicas[CONFIGURED_PER_STEP:]:
            self._tasks.spawn(self._configure_rest(rest), name="settings of logs")

    async def _configure_rest(self, replicas: Sequence[Replica]) -> None:
        for start in range(0, len(replicas), CONFIGURED_PER_STEP):
            await self._tasks.sleep(0)
            for replica in replicas[start : start + CONFIGURED_PER_STEP]:
                self._configure(replica)

    def _configure(self, replica: Replica) -> None:
        """Give a log the settings that are in force now."""
        topic = replica.log.topic
        try:
            replica.configure(log_settings(self._live.now, self._topic_configs.get(topic)))
        except BadValue as failure:  # not set through a broker, which would have refused it
            logger.error("can't apply configs of topic %s: %s", topic, failure)

    def _is_stale(self, controller_epoch: int) -> bool:
        if controller_epoch < self._controller_epoch:
            return True
        self._controller_epoch = controller_epoch
        return False

    async def update_metadata(self, request: UpdateMetadata) -> ErrorCode:
        """Update the metadata that clients receive."""
        if self._is_stale(request.controller_epoch):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        before = self._metadata.image.brokers.keys()
        self._metadata.apply(request)
        if gone := before - self._metadata.image.brokers.keys():
            self._tasks.spawn(self._go_on_without(gone), name="replicas without dead brokers")
        for listener in self.on_metadata:
            listener(request)
        return ErrorCode.NONE

    async def _go_on_without(self, gone: Collection[int]) -> None:
        for number, replica in enumerate(self._replicas, 1):
            if not replica.partition.followers.keys().isdisjoint(gone):
                replica.brokers_gone()
            if number % CONFIGURED_PER_STEP == 0:
                await self._tasks.sleep(0)

    def _is_live(self, broker_id: int) -> bool:
        return broker_id in self._metadata.image.brokers

    async def leader_and_isr(self, request: LeaderAndIsr) -> LeaderAndIsrResponse:
        """Make replicas leaders or followers; missing logs are created. If a request of a newer
        controller comes meanwhile, the remaining partitions are refused."""
        if self._is_stale(request.controller_epoch):
            return LeaderAndIsrResponse(ErrorCode.STALE_CONTROLLER_EPOCH, {})
        try:
            names = [topic.topic_name for topic in request.topic_states]
            await self._topic_configs.refresh(names)
            await self._internal_topics.before_leading(names)
        except SESSION_ENDED:  # all of it is sent again once this broker has registered anew
            return LeaderAndIsrResponse(ErrorCode.STALE_BROKER_EPOCH, {})
        errors: dict[TopicPartition, ErrorCode] = {}
        handled = 0
        for topic in request.topic_states:
            for state in topic.partition_states:
                self._to_retry.pop(TopicPartition(topic.topic_name, state.partition_index), None)
                if request.controller_epoch < self._controller_epoch:
                    return LeaderAndIsrResponse(ErrorCode.STALE_CONTROLLER_EPOCH, {})
                code = _STOPPED if self._closed else self._lead_or_follow(topic, state)
                if code != ErrorCode.NONE:
                    errors[TopicPartition(topic.topic_name, state.partition_index)] = code
                handled += 1
                if handled % PARTITIONS_PER_STEP == 0:
                    await self._tasks.sleep(0)
        return LeaderAndIsrResponse(ErrorCode.NONE, errors)

    def _lead_or_follow(
        self, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState
    ) -> ErrorCode:
        replica = self._replicas.find(topic.topic_name, state.partition_index)
        if replica is not None and replica.topic_id != topic.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if replica is not None and replica.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replica is not None and state.leader_epoch < replica.partition.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        try:
            if replica is None:
                replica = self._host(topic, state)
            self._apply(replica, state)
        except (OSError, StorageError) as failure:
            name = f"{topic.topic_name}-{state.partition_index}"
            if isinstance(failure, OSError) and is_fd_exhaustion(failure):
                self._retry_later(topic, state)
                self._replicas.refusals.line("%s can't be served yet: %s", name, failure)
                return ErrorCode.NONE
            if replica is not None and isinstance(failure, OSError):
                self._replicas.failures.storage_failed(replica, failure)
            logger.error("%s is offline, its log failed: %s", name, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _retry_later(
        self, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState
    ) -> None:
        """Try again until it succeeds, or the controller sends something else for the partition.
        The controller is not sent an error, which would keep the log offline until a restart.
        Clients get NOT_LEADER_OR_FOLLOWER meanwhile, and retry."""
        self._to_retry[TopicPartition(topic.topic_name, state.partition_index)] = topic, state
        if not self._is_retrying:
            self._is_retrying = True
            self._tasks.call_later(SHORTAGE_RETRY_S, self._retry)

    def _retry(self) -> None:
        self._is_retrying = False
        if self._to_retry and not self._closed:
            self._tasks.spawn(self._retry_all(), name="partitions that are not served yet")

    async def _retry_all(self) -> None:
        for tried, key in enumerate(list(self._to_retry), 1):
            states = self._to_retry.pop(key, None)
            if states is not None and not self._closed:
                self._lead_or_follow(*states)
            if tried % PARTITIONS_PER_STEP == 0:
                await self._tasks.sleep(0)

    def _host(self, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState) -> Replica:
        """Add a replica, with the log that the start-up found, or a new one."""
        logs, index = self._replicas.logs, state.partition_index
        log = logs.get(topic.topic_name, index)
        if log is not None:
            self._assign_topic_id(log, topic.topic_id)
        elif state.is_new or not logs.failed_directories:
            if not state.is_new:
                logger.warning(
                    "%s-%d is not new, but none of the log directories has its log; it begins "
                    "empty. Was one of them emptied, or not mounted?",
                    topic.topic_name,
                    index,
                )
            log = self._make_log(topic, index)
        else:  # an empty log may not take the place of one that can't be read now
            self._replicas.mark_missing(topic.topic_name, index)
            raise StorageError("its log may be in a log directory that is offline")
        partition = PartitionState(
            self._live.now.broker_id,
            high_watermark=max(logs.high_watermark((topic.topic_name, index)), log.start_offset),
            log_end=log.end_offset,
            lag_max_ms=self._live.now.replica_lag_time_max_ms,
            is_live=self._is_live,
        )
        partition.flushed(log.recovery_point)
        partition.configure(log.settings.flush_after, log.settings.min_insync_replicas)
        return self._replicas.host(topic.topic_id, log, partition)

    def _assign_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        logs = self._replicas.logs
        try:
            logs.assign_topic_id(log, topic_id)
        except OSError as failure:
            if not is_fd_exhaustion(failure):
                self._replicas.failures.directory_failed(logs.directory_of(log), failure)
                self._replicas.mark_missing(log.topic, log.partition)
            raise

    def _make_log(self, topic: LeaderAndIsrTopicState, index: int) -> PartitionLog:
        """A new log. A directory where it can't be made goes offline, and the next one is tried,
        unless a restart would then find two logs of the partition."""
        overrides = self._topic_configs.get(topic.topic_name)
        settings = log_settings(self._live.now, overrides)
        logs = self._replicas.logs
        while (directory := logs.next_directory((topic.topic_name, index))) is not None:
            try:
                return logs.create(topic.topic_name, index, topic.topic_id, settings)
            except PartialCreateError as half:
                self._replicas.failures.directory_failed(directory, half.failure)
                self._replicas.mark_missing(topic.topic_name, index)
                raise
            except OSError as failure:
                if is_fd_exhaustion(failure):
                    raise
                self._replicas.failures.directory_failed(directory, failure)
        self._replicas.mark_missing(topic.topic_name, index)
        raise StorageError("all log directories are offline")

    def _apply(self, replica: Replica, state: LeaderAndIsrPartitionState) -> None:
        leader_and_isr = LeaderAndIsrState(
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            state.partition_epoch,
            state.replicas,
        )
        if state.leader == self._live.now.broker_id:
            replica.lead(leader_and_isr)
        else:
            replica.partition.follow(leader_and_isr)
        replica.role_changed()

    async def stop_replica(self, request: StopReplica) -> StopReplicaResponse:
        """Remove replicas; delete their logs if the controller says so: the topic is deleted, or
        the partition was reassigned to other brokers."""
        if self._is_stale(request.controller_epoch):
            return StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH, {})
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                code = _STOPPED if self._closed else self._stop(topic.topic_name, state)
                if code != ErrorCode.NONE:
                    errors[TopicPartition(topic.topic_name, state.partition_index)] = code
            if any(state.leader_epoch == EPOCH_DURING_DELETE for state in topic.partition_states):
                self._topic_configs.forget(topic.topic_name)
            await self._tasks.sleep(0)
        await self._sync_deletions(request, errors)
        return StopReplicaResponse(ErrorCode.NONE, errors)

    async def _sync_deletions(
        self, request: StopReplica, errors: dict[TopicPartition, ErrorCode]
    ) -> None:
        """Sync the log directories before the response, after which the controller forgets the
        topic: logs that a power cut brought back would be in the way of a new topic of the same
        name."""
        deleted = [
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
            if state.delete_partition
        ]
        for directory in self._replicas.logs.online_directories if deleted else ():
            try:
                await self._sync_directory(directory)
            except OSError as failure:
                logger.error("can't flush deletions in %s: %s", directory, failure)
                if not is_fd_exhaustion(failure):
                    self._replicas.failures.directory_failed(directory, failure)
                errors |= dict.fromkeys(deleted, ErrorCode.KAFKA_STORAGE_ERROR)

    async def _sync_directory(self, directory: str) -> None:
        """OSError, but not for lack of file descriptors: then it tries again, and the controller's
        next requests wait, as they would for a slow disk."""
        while True:
            try:
                await self._jobs.run(Pool.WRITE, self._fs.sync_dir, directory)
                return
            except OSError as failure:
                if not is_fd_exhaustion(failure) or self._closed:
                    raise
                self._replicas.refusals.line("%s can't be synced yet: %s", directory, failure)
            await self._tasks.sleep(SHORTAGE_RETRY_S)

    def _stop(self, topic: str, state: StopReplicaPartitionState) -> ErrorCode:
        self._to_retry.pop(TopicPartition(topic, state.partition_index), None)
        replica = self._replicas.find(topic, state.partition_index)
        if replica is not None:
            epoch = state.leader_epoch
            sentinels = (EPOCH_DURING_DELETE, NO_EPOCH)
            if epoch not in sentinels and epoch < replica.partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if replica.offline and state.delete_partition:
                return ErrorCode.KAFKA_STORAGE_ERROR  # its files stay, for a restart to try
            self._replicas.remove(topic, state.partition_index)
        if state.delete_partition:
            if self._replicas.is_missing(topic, state.partition_index):
                return ErrorCode.KAFKA_STORAGE_ERROR  # as above
            return self._delete(topic, state.partition_index)
        return ErrorCode.NONE

    def _delete(self, topic: str, index: int) -> ErrorCode:
        logs = self._replicas.logs
        try:
            logs.delete(topic, index)
        except DeletionError as broken:
            logger.error("can't delete %s-%d: %s", topic, index, broken.failure)
            self._replicas.failures.directory_failed(broken.directory, broken.failure)
            if logs.get(topic, index) is None:
                return ErrorCode.KAFKA_STORAGE_ERROR
            return self._delete(topic, index)  # that was where a move has left something
        return ErrorCode.NONE

"""The fetchers of this broker: one for each broker that leads partitions which this one follows."""

from __future__ import annotations

from kavka.seams import Clock, Tasks
from kavka.server.replica.replica import Replica
from kavka.server.replica.replication_quotas import ReplicationQuota
from kavka.server.replication.broker_clients import Peers
from kavka.server.replication.leader_fetcher import FetcherSettings, LeaderFetcher


class Fetchers:
    """Fetches each partition from its leader. `role_changed` is called for every change."""

    def __init__(
        self,
        settings: FetcherSettings,
        peers: Peers,
        quota: ReplicationQuota,
        *,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._settings = settings
        self._peers = peers
        self._quota = quota
        self._clock = clock
        self._tasks = tasks
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._followed: dict[tuple[str, int], tuple[Replica, int, int]] = {}
        """Replica, leader and leader epoch of each partition that is fetched."""
        self._is_closed = False

    def role_changed(self, replica: Replica) -> None:
        """Begin to fetch a partition that this broker follows now, or stop if it does not any
        more."""
        key, partition = replica.key, replica.partition
        follows = replica.is_served and not partition.is_leader and partition.leader >= 0
        role = (replica, partition.leader, partition.leader_epoch)
        if follows and self._followed.get(key) == role:
            return
        self._remove(key, replica)
        if follows and not self._is_closed:
            self._followed[key] = role
            self._fetcher(partition.leader).add(replica)

    def replica_changed(self, replica: Replica) -> None:
        """A replica's log has been flushed, or starts later, or it is throttled or not any more:
        tell its fetcher, which may wait for that."""
        followed = self._followed.get(replica.key)
        if followed is not None:
            self._fetchers[followed[1]].changed(replica.key)

    def metadata_changed(self, _: object) -> None:
        """The addresses of brokers may have changed: fetchers may wait for one."""
        self.wake_all()

    def wake_all(self) -> None:
        """Wake all fetchers: what one waits for may have happened."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    def close(self) -> None:
        """Stop all fetchers."""
        self._is_closed = True
        self._followed.clear()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._peers.close()

    def _remove(self, key: tuple[str, int], replica: Replica) -> None:
        current = self._followed.get(key)
        if current is not None and (current[0] is replica or replica.hosted):
            del self._followed[key]
            self._fetchers[current[1]].remove(key)

    def _fetcher(self, leader: int) -> LeaderFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = LeaderFetcher(
                leader,
                self._settings,
                self._peers,
                self._quota,
                clock=self._clock,
                tasks=self._tasks,
            )
        return fetcher

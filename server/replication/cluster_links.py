"""What connects a broker with the others of its cluster: its fetchers, its requests for other ISRs
(AlterPartition), and the clients that these use."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from kavka.client.errors import UnsupportedVersion
from kavka.seams import Clock, Tasks, Timer
from kavka.server.config import BrokerSettings
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replication_quotas import ReplicationQuotas
from kavka.server.replication.broker_clients import BrokerClients
from kavka.server.replication.controller_client import ControllerClient
from kavka.server.replication.fetchers import Fetchers
from kavka.server.replication.isr_changes import IsrChanges
from kavka.server.replication.leader_fetcher import FetcherSettings
from kavka.server.replication.transaction_peers import TransactionPeers
from kavka.wire.errors import ApiError

logger = logging.getLogger(__name__)

PARTITIONS_PER_STEP: Final = 500


class ClusterLinks:
    """Created with the broker; it works from `start` until `close`."""

    def __init__(
        self,
        settings: BrokerSettings,
        clients: BrokerClients,
        controller: ControllerClient,
        replicas: ReplicaManager,
        transactions: TransactionPeers,
        quotas: ReplicationQuotas,
        *,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._replicas = replicas
        self._shrink_check_s = settings.replica_lag_time_max_ms / 2 / 1000  # as in Apache Kafka
        self._controller = controller
        self._transactions = transactions
        self._isrs = IsrChanges(self._controller, tasks)
        self.fetchers = Fetchers(
            FetcherSettings.of(settings, self._epoch),
            clients.for_leaders(),
            quotas.follower,
            clock=clock,
            tasks=tasks,
        )
        replicas.on_isr_proposal = self._isrs.propose
        replicas.on_role = self.fetchers.role_changed
        replicas.on_follower_change = self.fetchers.replica_changed
        replicas.flusher.on_flushed = self.fetchers.replica_changed
        quotas.on_change = self.fetchers.wake_all
        self._timer: Timer | None = None
        self._is_closed = False

    def registered(self, broker_epoch: int) -> None:
        """The broker is registered, and has a new epoch."""
        self._controller.broker_epoch = broker_epoch

    def _epoch(self) -> int:
        return self._controller.broker_epoch

    def start(self) -> None:
        """Begin to look for followers that lag, every half `replica.lag.time.max.ms`."""
        if not self._is_closed:
            self._timer = self._tasks.call_later(self._shrink_check_s, self._shrink_soon)

    async def shut_down(self) -> None:
        """Controlled shutdown: before the broker stops, the controller has other brokers lead what
        this one leads, if they can. A failed request is repeated up to
        `controlled.shutdown.max.retries` times."""
        settings = self._settings
        if not settings.controlled_shutdown_enable:
            return
        for attempt in range(settings.controlled_shutdown_max_retries + 1):
            if attempt:
                await self._tasks.sleep(settings.controlled_shutdown_retry_backoff_ms / 1000)
            remaining = await self._moved_away()
            if isinstance(remaining, Exception):
                logger.warning("controlled shutdown failed: %r", remaining)
                continue
            if not remaining:
                return
            if not self._controller.has_others():
                break  # nobody is left to lead them
            logger.info("controlled shutdown: %d partitions have no other leader yet", remaining)
        logger.warning("stopping although other brokers do not lead all that this one leads")

    async def _moved_away(self) -> int | Exception:
        """One attempt at that, which takes `controller.socket.timeout.ms` at most: the controller
        may be in this process and wait for a ZooKeeper that it can't reach. Returns the number of
        partitions that this broker still leads, or why that is not known."""

        async def move() -> int | Exception:
            try:
                return await self._controller.shut_down()
            except (ApiError, ConnectionError, UnsupportedVersion) as failure:
                return failure

        moving = self._tasks.spawn(move(), name="controlled shutdown")
        limit_s = self._settings.controller_socket_timeout_ms / 1000
        timer = self._tasks.call_later(limit_s, moving.cancel)
        try:
            await asyncio.wait([moving])
        finally:
            timer.cancel()
            moving.cancel()
        if moving.cancelled():
            return TimeoutError(f"the controller has not answered within {limit_s:g} s")
        return moving.result()

    def close(self) -> None:
        """Stop all fetches and requests."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._isrs.close()
        self._controller.close()
        self._transactions.close()
        self.fetchers.close()

    def _shrink_soon(self) -> None:
        self._tasks.spawn(self._shrink(), name="check for followers that lag")

    async def _shrink(self) -> None:
        for number, replica in enumerate(self._replicas, 1):
            if replica.is_served:
                replica.shrink_isr()
            if number % PARTITIONS_PER_STEP == 0:
                await self._tasks.sleep(0)
        self.start()

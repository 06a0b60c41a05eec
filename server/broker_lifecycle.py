"""A broker as a member of its cluster: its registration, in each session that it has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.server.broker import Broker
from kavka.server.coordination.broker_registration import register_broker
from kavka.server.start_checks import StartError
from kavka.zktree.api import SESSION_ENDED, CoordinationError, NodeExists, SessionEvent
from kavka.zktree.paths import BrokerInfo

if TYPE_CHECKING:
    from kavka.server.replication.cluster_links import ClusterLinks

logger = logging.getLogger(__name__)


class BrokerLifecycle:
    """Registers the broker at the start, and again in each new session, until `close`."""

    def __init__(
        self,
        broker: Broker,
        links: ClusterLinks | None,
        info: BrokerInfo,
        *,
        fail: Callable[[str], object],
    ) -> None:
        """`fail` is called, with the reason, when the broker can't go on."""
        self._broker = broker
        self._links = links
        self._info = info
        self._fail = fail
        self._is_closed = False
        broker.coordination.on_session(self._session_event)

    async def register(self) -> None:
        """Register the broker, which has a new epoch then. StartError while another
        session has its id."""
        broker = self._broker
        settings = broker.settings
        broker_id = settings.broker_id
        try:
            broker.epoch = await register_broker(
                broker.coordination,
                broker_id,
                self._info,
                clock=broker.clock,
                takes_over=settings.in_cluster and settings.kavka_fast_failover_enable,
            )
        except NodeExists as failure:
            raise StartError(
                f"broker {broker_id} is registered already ({failure.path}): stop the other broker "
                "that has this id, or set another broker.id; if this one was killed, start it "
                "again when the session of its earlier process has expired"
            ) from failure
        if self._links is not None:
            self._links.registered(broker.epoch)

    def close(self) -> None:
        """Register no more."""
        self._is_closed = True

    def _session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.RENEWED and not self._is_closed:
            self._broker.tasks.spawn(self._rejoin(), name="registration in a new session")

    async def _rejoin(self) -> None:
        """Register in a new session, and read what has changed unseen since the last one."""
        broker = self._broker
        try:
            await self.register()
            logger.info("broker %d is registered again", broker.settings.broker_id)
            await broker.topic_configs.reload()
            await broker.features.load()
            await broker.internal_topics.load()
            await broker.controller.rejoin()
        except SESSION_ENDED:
            return  # the next session begins anew
        except (CoordinationError, StartError) as failure:
            self._fail(f"the broker can't rejoin its cluster: {failure}")

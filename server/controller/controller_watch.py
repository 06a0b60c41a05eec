"""Watches the controller, which is another broker: when it refuses connections, it is deposed at
once (its node is deleted), and not only when its session ends, so that the next one is elected."""

from __future__ import annotations

import logging

from kavka.client.broker_client import BrokerClient
from kavka.seams import Tasks
from kavka.server.controller import tree_store
from kavka.server.controller.active_controller import Connect
from kavka.server.controller.reachability import Reachability
from kavka.zktree.api import SESSION_ENDED, Coordination

logger = logging.getLogger(__name__)


class ControllerWatch:
    """Watches one controller, in one term, until `close`."""

    def __init__(
        self,
        coordination: Coordination,
        current: tree_store.ControllerRegistration,
        connect: Connect,
        tasks: Tasks,
    ) -> None:
        self._coordination = coordination
        self._current = current
        self._connect = connect
        self._tasks = tasks
        self._client: BrokerClient | None = None
        self._reachability: Reachability | None = None
        self._is_closed = False
        tasks.spawn(self._begin(), name="watch over the controller")

    def close(self) -> None:
        """Stop watching."""
        self._is_closed = True
        if self._reachability is not None:
            self._reachability.close()
        if self._client is not None:
            self._client.close()

    async def _begin(self) -> None:
        try:
            broker = await tree_store.registered(self._coordination, self._current.broker_id)
        except SESSION_ENDED:
            return  # the next session begins with an election
        if broker is None or self._is_closed:
            return  # its session ends now: so does the controller's node, which is watched
        self._client = self._connect(broker)
        if self._client is not None:
            self._reachability = Reachability(self._client, self._changed, self._tasks)

    def _changed(self, is_reachable: bool) -> None:
        if not is_reachable:
            self._tasks.spawn(self._depose(), name="end of a dead controller")

    async def _depose(self) -> None:
        broker_id = self._current.broker_id
        logger.warning("controller %d refuses connections: another one is elected", broker_id)
        try:
            await tree_store.depose(self._coordination, self._current)
        except SESSION_ENDED:
            return

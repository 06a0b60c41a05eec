"""A broker's sessions with the coordination service, one after the other.

When a session has expired the next one is opened as soon as the service can be reached, and the
broker goes on serving meanwhile, as in Apache Kafka. Watches and ephemeral nodes end with their
session: they have to be set again after `SessionEvent.RENEWED`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.client.errors import ConnectFailed
from kavka.seams import Tasks
from kavka.zktree.api import (
    ANY_VERSION,
    Coordination,
    CoordinationError,
    Created,
    Op,
    OpResult,
    SessionEvent,
    Stat,
    Watch,
    Znode,
)

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Wait before another attempt to open a session."""


class RenewedSession:
    """`Coordination` over the present session. Between the end of one and the beginning of the next
    requests fail with SessionExpired."""

    def __init__(
        self, first: Coordination, open_next: Callable[[], Awaitable[Coordination]], tasks: Tasks
    ) -> None:
        self._open_next = open_next
        self._tasks = tasks
        self._listeners: list[Callable[[SessionEvent], object]] = []
        self._renewing: asyncio.Task[None] | None = None
        self._use(first)

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def last_zxid(self) -> int:
        return self._session.last_zxid

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Awaitable[Created]:
        return self._session.create(path, data, ephemeral=ephemeral, sequential=sequential)

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[Znode]:
        return self._session.get(path, watch)

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[Stat | None]:
        return self._session.exists(path, watch)

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        return self._session.children(path, watch)

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Awaitable[Stat]:
        return self._session.set(path, data, version)

    def delete(self, path: str, version: int = ANY_VERSION) -> Awaitable[None]:
        return self._session.delete(path, version)

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        return self._session.multi(ops)

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        self._stop_renewing()
        await self._session.close()

    def abandon(self) -> None:
        self._stop_renewing()
        self._session.abandon()

    def _use(self, session: Coordination) -> None:
        self._session = session
        session.on_session(partial(self._session_event, session))

    def _session_event(self, session: Coordination, event: SessionEvent) -> None:
        if session is not self._session:
            return
        self._notify(event)
        if event is SessionEvent.EXPIRED:
            self._renewing = self._tasks.spawn(self._renew(), name="next session")

    async def _renew(self) -> None:
        while (session := await self._try_to_open()) is None:
            await self._tasks.sleep(RETRY_S)
        self._renewing = None
        self._use(session)
        self._notify(SessionEvent.RENEWED)

    async def _try_to_open(self) -> Coordination | None:
        try:
            return await self._open_next()
        except (ConnectFailed, CoordinationError) as failure:
            logger.warning("no new session can be opened; retrying: %s", failure)
            return None

    def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()

    def _notify(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            listener(event)

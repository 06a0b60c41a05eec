"""The metadata of a broker that has just started in a cluster, until the controller has described
all of it.

Clients that know the broker's address connect as soon as it listens. If it answered them with what
it has by then, topics would be missing, or some of their partitions: producers would fail their
records or choose other partitions for their keys, and consumers of a pattern would give up
partitions. Apache Kafka does that too, but for less time: its controller sends all in one request.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import Final

from kavka.seams import Tasks, Timer
from kavka.server.cluster.control_messages import UpdateMetadata, is_deletion
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.zktree import paths
from kavka.zktree.api import Coordination, NoNode

logger = logging.getLogger(__name__)

GIVE_UP_S: Final = 5.0
"""After this time without an update clients get what there is: there may be no controller, or a
topic that no controller has seen yet."""

_READS_AT_ONCE: Final = 100


class FirstMetadata:
    """Knows which topics the controller has yet to describe as a whole."""

    def __init__(self, metadata: MetadataCache, tasks: Tasks) -> None:
        self._metadata = metadata
        self._tasks = tasks
        self._missing: dict[str, int] = {}
        """{topic: how many of its partitions had a state at the start}."""
        self._complete: asyncio.Future[None] = tasks.future()
        self._timer: Timer | None = None

    async def begin(self, coordination: Coordination) -> None:
        """Read which topics and partitions there are. Called after the broker has registered, and
        before it gets its first UpdateMetadata. SESSION_ENDED."""
        names = iter(await coordination.children(paths.TOPICS))
        while some := list(islice(names, _READS_AT_ONCE)):
            reads = [(name, coordination.children(paths.partitions(name))) for name in some]
            for name, partitions in reads:
                try:
                    self._missing[name] = len(await partitions)
                except NoNode:  # it has none yet
                    self._missing[name] = 0
        self._await_more()

    def _await_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._complete.done():
            self._timer = self._tasks.call_later(GIVE_UP_S, self._give_up)

    @property
    def is_complete(self) -> bool:
        """Whether clients may be answered from the metadata."""
        return self._complete.done()

    async def wait(self) -> None:
        """Wait until clients may be answered from the metadata."""
        if not self._complete.done():
            await asyncio.wait([self._complete])

    def updated(self, update: UpdateMetadata) -> None:
        """The controller has sent an update, which has been applied."""
        if self._complete.done():
            return
        topics = self._metadata.image.topics
        for state in update.topic_states:
            topic, partitions = topics.get(state.topic_name), self._missing.get(state.topic_name, 0)
            if is_deletion(state) or (topic and len(topic.partitions) >= partitions):
                self._missing.pop(state.topic_name, None)
        if not self._missing and self._metadata.image.brokers:
            self.end()
        elif update.topic_states:
            self._await_more()

    def end(self) -> None:
        """From now on clients are answered from the metadata that there is."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._complete.done():
            self._complete.set_result(None)

    def _give_up(self) -> None:
        logger.warning(
            "the controller has not described all partitions of %d topics, and nothing more for "
            "%g s; clients may not find them",
            len(self._missing),
            GIVE_UP_S,
        )
        self.end()

"""Dynamic configs: topic overrides, dynamic broker settings, group configs, and client metrics
subscriptions.

They live in `/config/topics`, `/config/brokers`, `/config/groups` and `/config/client-metrics`.
A change also creates a notification node under `/config/changes`, and every broker then reads that
entity again. There is no notification for the creation of a topic, so a topic's configs are read
before its first log is created here (`refresh`).

Holds the configs as text, as they are in the tree; `kavka.server.config` interprets them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from kavka.seams import Tasks
from kavka.server.config.value_types import one_line
from kavka.zktree import paths
from kavka.zktree.api import (
    Coordination,
    CoordinationError,
    Delete,
    MultiFailed,
    NoNode,
    SessionExpired,
    WatchEvent,
)

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

NOTIFICATION_EXPIRY_MS: Final = 15 * 60 * 1000
"""Notifications that are older than the newest one by this much are purged."""

NOTIFICATIONS_MAX: Final = 5000
"""Notifications that are kept, however young: each processing lists all, on the event loop."""

PURGED_AT_ONCE: Final = 100
"""Notifications purged by one write, which fires the watch; new ones are processed in between."""

READS_MAX: Final = 500
"""Entities read between two yields to the event loop, when all are loaded."""

RETRY_S: Final = 1.0
"""When processing is retried after the coordination service has failed."""

ConfigListener: TypeAlias = Callable[[str, str], object]
"""Called with the kind (`paths.TOPIC_CONFIGS` and so on) and name that changed."""

_KINDS: Final = (
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.GROUP_CONFIGS,
    paths.SUBSCRIPTION_CONFIGS,
)
_NONE: Final[Mapping[str, str]] = {}


class EntityConfigs:
    """The configs in the tree, kept up to date."""

    def __init__(self, coordination: Coordination, *, tasks: Tasks) -> None:
        self._coordination = coordination
        self._tasks = tasks
        self._settings: dict[str, dict[str, Mapping[str, str]]] = {kind: {} for kind in _KINDS}
        """By kind and name."""
        self._listeners: list[ConfigListener] = []
        self._last_processed = ""
        """Name of the newest processed notification; names are ascending."""
        self._reader: asyncio.Task[None] | None = None
        self._more_to_read = False
        """Whether notifications were added while others were being processed."""
        self._waits: list[tuple[str, asyncio.Future[None]]] = []
        """Notifications that requests wait for: one for each pending request that created one."""

    def get(self, name: str) -> Mapping[str, str]:
        """A topic's overrides; never changed in place."""
        return self._settings[paths.TOPIC_CONFIGS].get(name, _NONE)

    def broker(self, broker_id: int) -> Mapping[str, str]:
        """The dynamic settings of one broker."""
        return self._settings[paths.BROKER_CONFIGS].get(str(broker_id), _NONE)

    def broker_defaults(self) -> Mapping[str, str]:
        """The cluster-wide dynamic settings."""
        return self._settings[paths.BROKER_CONFIGS].get(paths.DEFAULT_ENTITY, _NONE)

    def group(self, group_id: str) -> Mapping[str, str]:
        """The configs of a group."""
        return self._settings[paths.GROUP_CONFIGS].get(group_id, _NONE)

    def groups(self) -> list[str]:
        """The groups that have configs."""
        return list(self._of(paths.GROUP_CONFIGS))

    def subscription(self, name: str) -> Mapping[str, str]:
        """The configs of a client metrics subscription."""
        return self._settings[paths.SUBSCRIPTION_CONFIGS].get(name, _NONE)

    def subscriptions(self) -> Mapping[str, Mapping[str, str]]:
        """The configs of all client metrics subscriptions, by name."""
        return self._of(paths.SUBSCRIPTION_CONFIGS)

    def _of(self, kind: str) -> dict[str, Mapping[str, str]]:
        return {name: found for name, found in self._settings[kind].items() if found}

    def on_change(self, listener: ConfigListener) -> None:
        """Call `listener` after each change, once the new configs can be read here."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read all configs, and watch for changes."""
        self._last_processed = await self._newest_notification()
        await self._read_all()

    async def reload(self) -> None:
        """Read all configs again, in a new session, and call the listeners for what has changed:
        the notifications of the time in between may have been purged."""
        newest = await self._newest_notification()
        before = {kind: dict(known) for kind, known in self._settings.items()}
        await self._read_all()
        self._last_processed = max(self._last_processed, newest)
        self._complete_waits()
        for kind, known in self._settings.items():
            for name in sorted(before[kind].keys() | known.keys()):
                if before[kind].get(name, _NONE) != known.get(name, _NONE):
                    self._call_listeners(kind, name)

    async def _newest_notification(self) -> str:
        """Its name, "" if there is none; watches for newer ones."""
        notifications = await self._coordination.children(
            paths.CONFIG_CHANGES, self._notifications_changed
        )
        return max(notifications, default="")

    async def _read_all(self) -> None:
        for kind in _KINDS:
            try:
                nodes = await self._coordination.children(f"/config/{kind}")
            except NoNode:
                nodes = []  # there were never any configs of this kind
            found = dict.fromkeys(paths.config_entity(kind, node) for node in nodes)
            names = list(found | dict.fromkeys(self._settings[kind]))
            for start in range(0, len(names), READS_MAX):
                await self._read([(kind, name) for name in names[start : start + READS_MAX]])
                await self._tasks.sleep(0)

    async def refresh(self, names: Iterable[str]) -> None:
        """Read the overrides of these topics again."""
        await self._read([(paths.TOPIC_CONFIGS, name) for name in names])

    def forget(self, name: str) -> None:
        """Remove a deleted topic's overrides."""
        self._settings[paths.TOPIC_CONFIGS].pop(name, None)

    def processed(self, notification: str) -> Awaitable[None]:
        """Wait until the listeners have been called for this notification. SessionExpired."""
        outcome: asyncio.Future[None] = self._tasks.future()
        if notification <= self._last_processed:
            outcome.set_result(None)
        else:
            self._waits.append((notification, outcome))
            self._schedule_processing()
        return outcome

    async def _read(self, entities: Sequence[tuple[str, str]]) -> None:
        results = [(entity, self._coordination.get(paths.config(*entity))) for entity in entities]
        for (kind, name), result in results:
            known = self._settings[kind]
            try:
                known[name] = paths.decode_config((await result).data)
            except NoNode:
                known.pop(name, None)
            except ValueError:
                logger.exception("can't read configs of %s %s", kind, name)
                known.setdefault(name, _NONE)

    def _notifications_changed(self, event: WatchEvent) -> None:
        self._schedule_processing()

    def _schedule_processing(self) -> None:
        self._more_to_read = True
        if self._reader is None:
            self._reader = self._tasks.spawn(self._process_notifications(), name="config changes")

    async def _process_notifications(self) -> None:
        try:
            while self._more_to_read:
                self._more_to_read = False
                notifications = await self._coordination.children(
                    paths.CONFIG_CHANGES, self._notifications_changed
                )
                for name in sorted(name for name in notifications if name > self._last_processed):
                    await self._process(f"{paths.CONFIG_CHANGES}/{name}")
                    self._last_processed = name
                    await self._tasks.sleep(0)
                self._complete_waits()
                await self._purge_obsolete(notifications)
        except SessionExpired as end:
            self._complete_waits(end)  # the next session, if there is one, begins with `reload`
        except Exception as failure:
            self._complete_waits(failure)
            self._tasks.call_later(RETRY_S, self._schedule_processing)  # the watch may not be set
            if not isinstance(failure, CoordinationError):
                raise
            logger.warning("can't read config changes; retrying: %s", failure)
        finally:
            self._reader = None

    def _complete_waits(self, failure: Exception | None = None) -> None:
        """Complete the waits for processed notifications, or fail all of them."""
        waits, self._waits = self._waits, []
        for notification, outcome in waits:
            if outcome.done():
                continue  # the waiter was cancelled
            if failure is not None:
                outcome.set_exception(failure)
            elif notification <= self._last_processed:
                outcome.set_result(None)
            else:
                self._waits.append((notification, outcome))

    async def _process(self, path: str) -> None:
        """Process the change notification at `path`: read the configs of the entity that it names,
        and call the listeners."""
        try:
            kind, name = paths.decode_config_change((await self._coordination.get(path)).data)
        except NoNode:
            return  # purged: the start-up has read its entity
        except (ValueError, KeyError):
            logger.exception("can't read config change %s", path)
            return
        if kind not in _KINDS:
            return
        await self._read([(kind, name)])
        self._call_listeners(kind, name)

    def _call_listeners(self, kind: str, name: str) -> None:
        keys = ", ".join(map(one_line, self._settings[kind].get(name, _NONE)))
        logger.info("configs of %s %s changed; now set: %s", kind, name, keys or "nothing")
        for listener in self._listeners:
            try:
                listener(kind, name)
            except Exception:  # the other listeners must still be called
                logger.exception("a listener failed for changed configs of %s %s", kind, name)

    async def _purge_obsolete(self, notifications: Sequence[str]) -> None:
        """Delete old notifications and those above the limit; ages are by the tree's timestamps."""
        if not notifications:
            return
        newest = await self._coordination.exists(f"{paths.CONFIG_CHANGES}/{notifications[-1]}")
        if newest is None:
            return  # another broker has purged it
        surplus = len(notifications) - NOTIFICATIONS_MAX
        old: list[Delete] = []
        for index, name in enumerate(notifications[:-1][:PURGED_AT_ONCE]):
            path = f"{paths.CONFIG_CHANGES}/{name}"
            stat = await self._coordination.exists(path)
            if stat is None:
                continue
            if index >= surplus and newest.ctime - stat.ctime <= NOTIFICATION_EXPIRY_MS:
                break
            old.append(Delete(path))
        if old:
            with suppress(MultiFailed):  # another broker purged them, which fires the watch
                await self._coordination.multi(old)

"""Settings made while the cluster runs: a topic's overrides, the brokers' dynamic settings, those
of groups, and subscriptions to metrics of clients.

They live in `/config/topics`, `/config/brokers`, `/config/groups` and `/config/client-metrics`.
Whoever changes one also leaves a note under `/config/changes`, and every broker then reads that
entity again. Nobody leaves a note for a topic that is being made, so whoever makes its first log
here reads its settings first (`refresh`).

Owns what is in the tree, as text; what the settings mean is `kavka.server.config`'s business.
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

NOTE_EXPIRY_MS: Final = 15 * 60 * 1000
"""Age, next to the newest note, at which a broker that sees a note removes it."""

NOTES_MAX: Final = 5000
"""Notes that are kept however young: all are listed, on the loop, whenever one is followed."""

REMOVED_AT_ONCE: Final = 100
"""Notes removed by one write, which sets off the next look. New notes are followed in between."""

READS_MAX: Final = 500
"""Entities read at once when all are loaded, before the loop gets a turn."""

RETRY_S: Final = 1.0
"""When notes are looked at again after the coordination service could not be asked."""

ConfigListener: TypeAlias = Callable[[str, str], object]
"""Called with the kind (`paths.TOPIC_CONFIGS` and so on) and name that changed."""

_KINDS: Final = (
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.GROUP_CONFIGS,
    paths.SUBSCRIPTION_CONFIGS,
)
_NONE: Final[Mapping[str, str]] = {}


class TopicConfigs:
    """The settings as they are in the tree, kept current."""

    def __init__(self, coordination: Coordination, *, tasks: Tasks) -> None:
        self._coordination = coordination
        self._tasks = tasks
        self._settings: dict[str, dict[str, Mapping[str, str]]] = {kind: {} for kind in _KINDS}
        """By kind and name."""
        self._listeners: list[ConfigListener] = []
        self._last_note = ""
        """Name of the newest note that was followed; names rise."""
        self._reader: asyncio.Task[None] | None = None
        self._more = False
        """Whether notes came while others were being followed."""
        self._awaited: list[tuple[str, asyncio.Future[None]]] = []
        """Notes that somebody waits for: one for each unanswered request that left one."""

    def get(self, name: str) -> Mapping[str, str]:
        """A topic's overrides; never changed in place."""
        return self._settings[paths.TOPIC_CONFIGS].get(name, _NONE)

    def broker(self, broker_id: int) -> Mapping[str, str]:
        """The dynamic settings of one broker."""
        return self._settings[paths.BROKER_CONFIGS].get(str(broker_id), _NONE)

    def broker_defaults(self) -> Mapping[str, str]:
        """The dynamic settings that hold for all brokers."""
        return self._settings[paths.BROKER_CONFIGS].get(paths.DEFAULT_ENTITY, _NONE)

    def group(self, group_id: str) -> Mapping[str, str]:
        """What a consumer group has for itself."""
        return self._settings[paths.GROUP_CONFIGS].get(group_id, _NONE)

    def groups(self) -> list[str]:
        """The groups that have something for themselves."""
        return list(self._of(paths.GROUP_CONFIGS))

    def subscription(self, name: str) -> Mapping[str, str]:
        """What a subscription to metrics of clients has for itself."""
        return self._settings[paths.SUBSCRIPTION_CONFIGS].get(name, _NONE)

    def subscriptions(self) -> Mapping[str, Mapping[str, str]]:
        """All subscriptions that have something for themselves, by name."""
        return self._of(paths.SUBSCRIPTION_CONFIGS)

    def _of(self, kind: str) -> dict[str, Mapping[str, str]]:
        return {name: found for name, found in self._settings[kind].items() if found}

    def on_change(self, listener: ConfigListener) -> None:
        """Call `listener` after each change, when the new settings are here already."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read everything, and every change from now on."""
        notes = await self._coordination.children(paths.CONFIG_CHANGES, self._noted)
        self._last_note = max(notes, default="")
        for kind in _KINDS:
            try:
                nodes = await self._coordination.children(f"/config/{kind}")
            except NoNode:
                continue  # none of this kind was ever given any
            names = [paths.config_entity(kind, node) for node in nodes]
            for start in range(0, len(names), READS_MAX):
                await self._read([(kind, name) for name in names[start : start + READS_MAX]])
                await self._tasks.sleep(0)

    async def refresh(self, names: Iterable[str]) -> None:
        """Read the overrides of these topics, known or not."""
        await self._read([(paths.TOPIC_CONFIGS, name) for name in names])

    def forget(self, name: str) -> None:
        """Drop a deleted topic's overrides."""
        self._settings[paths.TOPIC_CONFIGS].pop(name, None)

    def followed(self, note: str) -> Awaitable[None]:
        """Wait until listeners have been told of what this note is about. SessionExpired."""
        outcome: asyncio.Future[None] = self._tasks.future()
        if note <= self._last_note:
            outcome.set_result(None)
        else:
            self._awaited.append((note, outcome))
            self._look()
        return outcome

    async def _read(self, entities: Sequence[tuple[str, str]]) -> None:
        answers = [(entity, self._coordination.get(paths.config(*entity))) for entity in entities]
        for (kind, name), answer in answers:
            known = self._settings[kind]
            try:
                known[name] = paths.decode_config((await answer).data)
            except NoNode:
                known.pop(name, None)
            except ValueError:
                logger.exception("can't read configs of %s %s", kind, name)
                known.setdefault(name, _NONE)

    def _noted(self, event: WatchEvent) -> None:
        self._look()

    def _look(self) -> None:
        self._more = True
        if self._reader is None:
            self._reader = self._tasks.spawn(self._follow_notes(), name="config changes")

    async def _follow_notes(self) -> None:
        try:
            while self._more:
                self._more = False
                notes = await self._coordination.children(paths.CONFIG_CHANGES, self._noted)
                for name in sorted(name for name in notes if name > self._last_note):
                    await self._follow(f"{paths.CONFIG_CHANGES}/{name}")
                    self._last_note = name
                    await self._tasks.sleep(0)
                self._settle()
                await self._remove_old(notes)
        except SessionExpired as end:
            self._settle(end)  # the broker goes down with it
        except Exception as failure:
            self._settle(failure)
            self._tasks.call_later(RETRY_S, self._look)  # no watch need be set
            if not isinstance(failure, CoordinationError):
                raise
            logger.warning("can't read config changes; retrying: %s", failure)
        finally:
            self._reader = None

    def _settle(self, failure: Exception | None = None) -> None:
        """Tell those who wait for notes that have been followed, or all of them why not."""
        awaited, self._awaited = self._awaited, []
        for note, outcome in awaited:
            if outcome.done():
                continue  # nobody waits any more
            if failure is not None:
                outcome.set_exception(failure)
            elif note <= self._last_note:
                outcome.set_result(None)
            else:
                self._awaited.append((note, outcome))

    async def _follow(self, path: str) -> None:
        """Read again what a note says has changed."""
        try:
            kind, name = paths.decode_config_change((await self._coordination.get(path)).data)
        except NoNode:
            return  # removed as old: what it said was read at the start
        except (ValueError, KeyError):
            logger.exception("can't read config change %s", path)
            return
        if kind not in _KINDS:
            return
        await self._read([(kind, name)])
        keys = ", ".join(map(one_line, self._settings[kind].get(name, _NONE)))
        logger.info("configs of %s %s changed; now set: %s", kind, name, keys or "nothing")
        for listener in self._listeners:
            try:
                listener(kind, name)
            except Exception:  # the others, and what changes later, do not depend on it
                logger.exception("changed settings of %s %s were not put into effect", kind, name)

    async def _remove_old(self, notes: Sequence[str]) -> None:
        """Keep the notes few. Their age is told by the clock that stamped them."""
        if not notes:
            return
        newest = await self._coordination.exists(f"{paths.CONFIG_CHANGES}/{notes[-1]}")
        if newest is None:
            return  # another broker was quicker
        surplus = len(notes) - NOTES_MAX
        old: list[Delete] = []
        for index, name in enumerate(notes[:-1][:REMOVED_AT_ONCE]):
            path = f"{paths.CONFIG_CHANGES}/{name}"
            stat = await self._coordination.exists(path)
            if stat is None:
                continue
            if index >= surplus and newest.ctime - stat.ctime <= NOTE_EXPIRY_MS:
                break
            old.append(Delete(path))
        if old:
            with suppress(MultiFailed):  # another broker was quicker; and sets off the next look
                await self._coordination.multi(old)

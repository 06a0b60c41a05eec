"""The levels of the cluster's features (KIP-584): in the coordination tree, and in force here.

The tree has only levels that were set explicitly; other features have a default level, which for
`transaction.version` is a broker setting. The code reads levels from the broker's settings
(`kavka_transaction_version`, `group_version`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kavka.seams import Tasks
from kavka.server.config.features import (
    GROUP_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
    SUPPORTED,
    TRANSACTION_VERSION,
    Update,
    updated,
)
from kavka.server.config.live import LiveSettings
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import (
    SESSION_ENDED,
    BadVersion,
    Coordination,
    NodeExists,
    NoNode,
    WatchEvent,
    Znode,
)

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 10
"""How often an update is retried because another broker has changed the features."""

_SETTING: Final = "kavka.transaction.version"


class Features:
    """Watches the node with the features, and updates it."""

    def __init__(self, live: LiveSettings, coordination: Coordination, tasks: Tasks) -> None:
        self._live = live
        self._coordination = coordination
        self._tasks = tasks
        self.changed_in = 0
        """The zxid of the last change of the levels; 0 if there was none."""

    def levels(self) -> dict[str, int]:
        """The level of every feature, sorted by name."""
        settings = self._live.now
        return {
            GROUP_VERSION: settings.group_version,
            METADATA_VERSION: METADATA_VERSION_LEVEL,
            TRANSACTION_VERSION: settings.kavka_transaction_version,
        }

    async def load(self) -> None:
        """Apply the levels in the tree, and watch them for changes."""
        try:
            self._apply(await self._coordination.get(paths.FEATURE, self._changed))
        except NoNode:
            if await self._coordination.exists(paths.FEATURE, self._changed) is not None:
                await self.load()  # created in between
        set_at_start = self._live.now.given.get(_SETTING)
        levels = self._live.now.dynamic.levels
        if set_at_start is not None and TRANSACTION_VERSION in levels:
            logger.warning(
                "%s has no effect: %s was set to %d by UpdateFeatures",
                _SETTING,
                TRANSACTION_VERSION,
                levels[TRANSACTION_VERSION],
            )

    async def update(
        self, updates: Sequence[Update], controller_id: int, *, validate_only: bool
    ) -> None:
        """Change levels atomically, and apply them here. ApiError."""
        for _ in range(ATTEMPTS_MAX):
            try:
                node = await self._coordination.get(paths.FEATURE)
            except NoNode:
                node = None
            if node is not None:
                self._apply(node)
            before = self.levels()
            after = updated(before, updates, controller_id)
            if validate_only or after == before:
                return
            if await self._write(node, before, after):
                return
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "The features are being changed all the time.")

    async def _write(
        self, node: Znode | None, before: Mapping[str, int], after: Mapping[str, int]
    ) -> bool:
        """Whether the write succeeded; it fails if the node has changed meanwhile."""
        changed = {name: level for name, level in after.items() if level != before[name]}
        data = paths.encode_features({**self._live.now.dynamic.levels, **changed})
        try:
            if node is None:
                _, stat = await self._coordination.create(paths.FEATURE, data)
            else:
                stat = await self._coordination.set(paths.FEATURE, data, node.stat.version)
        except (BadVersion, NodeExists, NoNode):
            return False
        self._apply(Znode(data, stat))
        return True

    def _changed(self, event: WatchEvent) -> None:
        self._tasks.spawn(self._reload(), name="levels of features")

    async def _reload(self) -> None:
        try:
            await self.load()
        except SESSION_ENDED:
            return  # the next session, if there is one, begins with `load`

    def _apply(self, node: Znode) -> None:
        """Apply levels; those that this broker does not support are ignored."""
        if node.stat.mzxid <= self.changed_in:
            return
        self.changed_in = node.stat.mzxid
        levels: dict[str, int] = {}
        try:
            found = paths.decode_features(node.data)
        except (ValueError, KeyError, TypeError, AttributeError):
            logger.exception("the features at %s can't be read", paths.FEATURE)
            return
        for name, level in found.items():
            supported = SUPPORTED.get(name)
            if supported is not None and supported.lowest <= level <= supported.highest:
                levels[name] = level
            else:
                logger.error("%s at level %d is not supported", name, level)
        before = self._live.now.dynamic
        if levels != before.levels:
            logger.info("feature levels changed; now set: %s", levels or "none")
            self._live.change(self._live.now.with_dynamic(replace(before, levels=levels)))

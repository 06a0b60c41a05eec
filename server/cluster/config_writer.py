"""Writes configs to the coordination tree. Any broker may do this, not only the controller.

The entity's node and the notification that makes all brokers read it again (`EntityConfigs`) are
written in one transaction; a change is done when this broker has processed its own notification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from kavka.seams import Tasks
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import (
    BadVersion,
    Check,
    Coordination,
    Create,
    Created,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    SetData,
)

if TYPE_CHECKING:
    import asyncio

Entity: TypeAlias = tuple[str, str]
"""Kind (`paths.TOPIC_CONFIGS` and so on) and name."""

Decide: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the current configs to the new ones; raises to reject the change."""

ATTEMPTS_MAX: Final = 10
"""How often a change is retried because another broker changed the same configs."""


class ConfigWriter:
    """Makes the changes of one entity one after the other, in the order of the calls."""

    def __init__(self, coordination: Coordination, configs: EntityConfigs, tasks: Tasks) -> None:
        self._coordination = coordination
        self._configs = configs
        self._tasks = tasks
        self._last: dict[Entity, asyncio.Future[None]] = {}
        """For each entity with a pending change: done when the newest one is done."""

    async def change(self, entity: Entity, decide: Decide, *, validate_only: bool) -> None:
        """Change configs, and wait until the change is in effect here.

        Raises what `decide` raises; ApiError UNKNOWN_TOPIC_OR_PARTITION for a topic that is gone.
        """
        before = self._last.get(entity)
        done = self._last[entity] = self._tasks.future()
        try:
            if before is not None:
                await before
            await self._change(entity, decide, validate_only)
        finally:
            if not done.done():
                done.set_result(None)
            if self._last.get(entity) is done:
                del self._last[entity]

    async def _change(self, entity: Entity, decide: Decide, validate_only: bool) -> None:
        for _ in range(ATTEMPTS_MAX):
            current, version = await self._read(entity)
            configs = dict(decide(current))
            if validate_only or configs == current:
                return
            notification = await self._write(entity, configs, version)
            if notification:
                await self._configs.processed(notification)
                return
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "The configs are being changed all the time.")

    async def _read(self, entity: Entity) -> tuple[dict[str, str], int | None]:
        """The configs, and the version of their node; None if there is none yet."""
        try:
            node = await self._coordination.get(paths.config(*entity))
        except NoNode:
            return {}, None
        return paths.decode_config(node.data), node.stat.version

    async def _write(self, entity: Entity, configs: dict[str, str], version: int | None) -> str:
        """Write node and notification. Returns the latter's name; "" if the node has changed."""
        kind, name = entity
        if kind not in paths.CONFIG_TYPES and version is None:
            await self._create_parent(kind)
        node = _node_change(kind, name, configs, version)
        notification = Create(
            paths.CONFIG_CHANGE_PREFIX, paths.encode_config_change(kind, name), sequential=True
        )
        of_topic = [Check(paths.topic(name))] if kind == paths.TOPIC_CONFIGS else []
        try:
            *_, created = await self._coordination.multi([*of_topic, node, notification])
        except MultiFailed as failure:
            if failure.index < len(of_topic):
                reason = f"The topic '{name}' does not exist."
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason) from failure
            if isinstance(failure.cause, BadVersion | NodeExists | NoNode):
                return ""
            raise
        assert isinstance(created, Created)
        return created.path.rpartition("/")[2]

    async def _create_parent(self, kind: str) -> None:
        """Create the parent of the entities of this kind, if it does not exist."""
        try:
            await self._coordination.create(f"/config/{kind}", None)
        except NodeExists:
            pass


def _node_change(kind: str, name: str, configs: Mapping[str, str], version: int | None) -> Op:
    """What makes the entity's node hold these configs.

    Nodes of the kinds that Apache Kafka has with ZooKeeper stay there without configs, as its own
    do. Groups and subscriptions may have any name, and many come and go: theirs are deleted.
    """
    path, data = paths.config(kind, name), paths.encode_config(configs)
    if version is None:
        return Create(path, data)
    if not configs and kind not in paths.CONFIG_TYPES:
        return Delete(path, version)
    return SetData(path, data, version)

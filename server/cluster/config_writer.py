"""Writes configs into the coordination tree, as any broker may: no controller is asked.

The node of the entity and the note that tells all brokers to read it again (`TopicConfigs`) go in
together; a change is over when this broker has followed its own note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from kavka.seams import Tasks
from kavka.server.cluster.entity_configs import TopicConfigs
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import (
    BadVersion,
    Check,
    Coordination,
    Create,
    Created,
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
"""From the configs as they are to those that are to be; raises to leave them."""

ATTEMPTS_MAX: Final = 10
"""How often a change is decided anew because another broker changed the same configs."""


class ConfigWriter:
    """Changes of one entity are made one after the other, in the order in which they came."""

    def __init__(self, coordination: Coordination, configs: TopicConfigs, tasks: Tasks) -> None:
        self._coordination = coordination
        self._configs = configs
        self._tasks = tasks
        self._last: dict[Entity, asyncio.Future[None]] = {}
        """The end of the newest change of each entity that has one under way."""

    async def change(self, entity: Entity, decide: Decide, *, validate_only: bool) -> None:
        """Change configs, and wait until the change is in force here.

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
            wanted = dict(decide(current))
            if validate_only or wanted == current:
                return
            note = await self._write(entity, wanted, version)
            if note:
                await self._configs.followed(note)
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
        """Write node and note; the note's name, or "" if the node has changed meanwhile."""
        kind, name = entity
        if kind not in paths.CONFIG_TYPES and version is None:
            await self._make_parent(kind)
        path, data = paths.config(kind, name), paths.encode_config(configs)
        node: Op = Create(path, data) if version is None else SetData(path, data, version)
        note = Create(
            paths.CONFIG_CHANGE_PREFIX, paths.encode_config_change(kind, name), sequential=True
        )
        of_topic = [Check(paths.topic(name))] if kind == paths.TOPIC_CONFIGS else []
        try:
            *_, created = await self._coordination.multi([*of_topic, node, note])
        except MultiFailed as failure:
            if failure.index < len(of_topic):
                reason = f"The topic '{name}' does not exist."
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason) from failure
            if isinstance(failure.cause, BadVersion | NodeExists | NoNode):
                return ""
            raise
        assert isinstance(created, Created)
        return created.path.rpartition("/")[2]

    async def _make_parent(self, kind: str) -> None:
        """Where configs of this kind are to lie, unless there were any before."""
        try:
            await self._coordination.create(f"/config/{kind}", None)
        except NodeExists:
            pass

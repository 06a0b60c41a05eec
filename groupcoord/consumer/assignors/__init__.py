"""Server-side assignors (KIP-848): they assign partitions to members. Pure, with pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from kavka.groupcoord.consumer.assignors import range as by_range
from kavka.groupcoord.consumer.assignors import uniform
from kavka.groupcoord.consumer.assignors.task import Task
from kavka.wire.steps import Steps

Assignor: TypeAlias = Callable[[Task], Steps[Mapping[str, Mapping[UUID, list[int]]]]]
"""{member id: {topic id: partitions, in order}}; members without partitions may be omitted."""

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform.assign, "range": by_range.assign}

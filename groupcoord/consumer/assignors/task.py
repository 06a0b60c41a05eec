"""The input of an assignor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kavka.groupcoord.consumer.member import Target


class Candidate(NamedTuple):
    """One member. `topics` are the existing topics that it subscribes to, each once."""

    member_id: str
    instance_id: str | None
    topics: Sequence[UUID]
    target: Target
    """Its current target assignment."""


class Task(NamedTuple):
    """`partitions`: the partition count of each subscribed topic."""

    members: Sequence[Candidate]
    partitions: Mapping[UUID, int]
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""

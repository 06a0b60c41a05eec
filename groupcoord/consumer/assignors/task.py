"""What an assignor is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kavka.groupcoord.consumer.member import Target


class Candidate(NamedTuple):
    """One member. `topics` are those that it subscribes to and that exist, each once."""

    member_id: str
    instance_id: str | None
    topics: Sequence[UUID]
    target: Target
    """What it was to have until now."""


class Task(NamedTuple):
    """`partitions`: how many each subscribed topic has."""

    members: Sequence[Candidate]
    partitions: Mapping[UUID, int]
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""

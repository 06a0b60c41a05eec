"""Counters of groups for the metrics, which are there before the first group is. Pure."""

from __future__ import annotations


class Counts:
    """Counters of all groups that a broker has coordinated since its start."""

    __slots__ = (
        "classic_rebalances",
        "consumer_rebalances",
        "offsets_committed",
        "offsets_deleted",
        "offsets_expired",
    )

    def __init__(self) -> None:
        self.classic_rebalances = 0
        """Generations with a stored assignment."""
        self.consumer_rebalances = 0
        """Epoch bumps of consumer groups, except those for a member that only leaves."""
        self.offsets_committed = 0
        self.offsets_deleted = 0
        """By OffsetDelete."""
        self.offsets_expired = 0

"""How often what has happened to groups: for the metrics. Pure."""

from __future__ import annotations


class Counts:
    """Of all groups that a broker has coordinated since its start; each place adds its own."""

    __slots__ = (
        "classic_rebalances",
        "consumer_rebalances",
        "offsets_committed",
        "offsets_deleted",
        "offsets_expired",
    )

    def __init__(self) -> None:
        self.classic_rebalances = 0
        """Generations that got an assignment."""
        self.consumer_rebalances = 0
        """Epochs of groups of the newer protocol, but for those in which a member just goes."""
        self.offsets_committed = 0
        self.offsets_deleted = 0
        """By OffsetDelete."""
        self.offsets_expired = 0

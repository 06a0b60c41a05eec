"""Names of topics that are the broker's own."""

from __future__ import annotations

from typing import Final

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Written by coordinators only; clients may read them. Kavka has no coordinator for the last one,
but Apache Kafka 4 has, and its clients know the name."""

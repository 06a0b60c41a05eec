"""Names of topics that are the broker's own."""

from __future__ import annotations

from typing import Final

GROUP_TOPIC: Final = "__consumer_offsets"
"""Where groups and their offsets are kept."""

TRANSACTION_TOPIC: Final = "__transaction_state"

INTERNAL_TOPICS: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, "__share_group_state"})
"""Written by coordinators only; clients may read them. Kavka has no coordinator for the last one,
but Apache Kafka 4 has, and its clients know the name."""

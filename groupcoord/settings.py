"""What the rules of groups go by. Names are Apache Kafka's, with underscores; see
`kavka.server.config`, whose settings have the same fields.
"""

from __future__ import annotations

from typing import Protocol


class GroupSettings(Protocol):
    """Settings in force now; they may differ at the next look."""

    @property
    def group_initial_rebalance_delay_ms(self) -> int: ...

    @property
    def group_max_size(self) -> int: ...

    @property
    def offset_metadata_max_bytes(self) -> int: ...

    @property
    def offsets_retention_minutes(self) -> int: ...

    @property
    def offsets_retention_check_interval_ms(self) -> int: ...

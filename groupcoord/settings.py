"""Settings of the group coordinator. Names are Apache Kafka's, with underscores; the settings of
`kavka.server.config` have the same fields.
"""

from __future__ import annotations

from typing import Protocol


class GroupSettings(Protocol):
    """The current settings; dynamic ones may change between two reads."""

    @property
    def group_consumer_assignment_interval_ms(self) -> int: ...

    @property
    def group_consumer_assignors(self) -> tuple[str, ...]: ...

    @property
    def group_consumer_heartbeat_interval_ms(self) -> int: ...

    @property
    def group_consumer_max_assignment_interval_ms(self) -> int: ...

    @property
    def group_consumer_max_heartbeat_interval_ms(self) -> int: ...

    @property
    def group_consumer_max_session_timeout_ms(self) -> int: ...

    @property
    def group_consumer_max_size(self) -> int: ...

    @property
    def group_consumer_migration_policy(self) -> str: ...

    @property
    def group_consumer_min_assignment_interval_ms(self) -> int: ...

    @property
    def group_consumer_min_heartbeat_interval_ms(self) -> int: ...

    @property
    def group_consumer_min_session_timeout_ms(self) -> int: ...

    @property
    def group_consumer_regex_refresh_interval_ms(self) -> int: ...

    @property
    def group_consumer_session_timeout_ms(self) -> int: ...

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

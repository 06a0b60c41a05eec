"""Settings of the transaction coordinator. Names are Apache Kafka's, with underscores; the
settings of `kavka.server.config` have the same fields.
"""

from __future__ import annotations

from typing import Protocol


class TransactionSettings(Protocol):
    """The current settings; dynamic ones may change between two reads."""

    @property
    def kavka_transaction_version(self) -> int:
        """The level of the feature `transaction.version`, 0 to 2 (KIP-890)."""
        ...

    @property
    def transaction_abort_timed_out_transaction_cleanup_interval_ms(self) -> int: ...

    @property
    def transaction_max_timeout_ms(self) -> int: ...

    @property
    def transaction_remove_expired_transaction_cleanup_interval_ms(self) -> int: ...

    @property
    def transactional_id_expiration_ms(self) -> int: ...

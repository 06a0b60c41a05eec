"""What the rules of transactions go by. Names are Apache Kafka's, with underscores; see
`kavka.server.config`, whose settings have the same fields.
"""

from __future__ import annotations

from typing import Protocol


class TransactionSettings(Protocol):
    """Settings in force now; they may differ at the next look."""

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

"""How far a follower has got, as the leader of its partition knows from its fetches."""

from __future__ import annotations

from typing import Final

UNKNOWN_END: Final = -1
LONG_AGO_MS: Final = -(1 << 62)
"""Time of an event that has never happened: longer ago than any `replica.lag.time.max.ms`."""


class FollowerProgress:
    """One follower of a partition. Times are the leader's, in ms of its monotonic clock.

    A follower is in sync as long as it has all of the leader's records, or had all of them within
    the last `replica.lag.time.max.ms` (KIP-16). Under load it never has the very last record, so it
    had all of them at its previous fetch if it now has what the leader had then.
    """

    __slots__ = (
        "_fetched_ms",
        "_leader_end_then",
        "caught_up_ms",
        "log_end",
        "log_start",
        "sent_high_watermark",
    )

    def __init__(self) -> None:
        self.log_end = UNKNOWN_END
        """Its log end offset; unknown until its first fetch in this leader epoch."""
        self.log_start = UNKNOWN_END
        """Its log start offset, as it said itself; unknown until its first fetch."""
        self.caught_up_ms = LONG_AGO_MS
        """When it last had all records."""
        self.sent_high_watermark = UNKNOWN_END
        """The high watermark in the last response to it in this leader epoch. Set only if consumers
        may read from followers: these then get each new high watermark at once."""
        self._fetched_ms = LONG_AGO_MS
        self._leader_end_then = UNKNOWN_END

    def begin_epoch(self, now_ms: int, *, in_sync: bool) -> None:
        """A leader epoch begins. A follower in the ISR has until `replica.lag.time.max.ms` from
        now to fetch; what it fetched from an earlier leader is unknown here."""
        self.log_end = UNKNOWN_END
        self.caught_up_ms = now_ms if in_sync else LONG_AGO_MS
        self.sent_high_watermark = UNKNOWN_END
        self._fetched_ms = LONG_AGO_MS
        self._leader_end_then = UNKNOWN_END

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """It has fetched from `offset`, so it has all records below that."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_then:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end = offset
        self._leader_end_then = leader_end
        self._fetched_ms = now_ms

    def is_in_sync(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it may stay in the ISR."""
        return self.log_end == leader_end or now_ms - self.caught_up_ms <= lag_max_ms

"""How fast partitions whose replication is throttled are replicated (KIP-73).

A topic's configs name the replicas that are throttled (`Replica.throttled_as_leader` and
`throttled_as_follower`), and the broker's say how many bytes a second they may fetch, or be sent,
all together. All that they replicate counts, but only replicas that are not in sync wait: one that
is must not leave the ISR for its throttle.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.seams import Clock
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.replica.sampled_rate import SampledRate


class ReplicationQuota:
    """The limit in one direction, and what has been replicated."""

    def __init__(self, settings: BrokerSettings, limit_per_s: int, clock: Clock) -> None:
        self._rate = SampledRate(
            settings.replication_quota_window_num,
            settings.replication_quota_window_size_seconds * 1000,
        )
        self._clock = clock
        self.limit_per_s = limit_per_s
        """Bytes."""

    def record(self, size_bytes: int) -> None:
        """Count bytes of a throttled partition, whether they were within the limit or not."""
        self._rate.record(size_bytes, self._now_ms())

    @property
    def bytes_per_s(self) -> float:
        """How fast throttled partitions are replicated."""
        return self._rate.per_s(self._now_ms())

    @property
    def is_exceeded(self) -> bool:
        """Whether throttled partitions have to wait."""
        return self.bytes_per_s > self.limit_per_s

    def free_at_s(self) -> float:
        """When it is not exceeded any more, if nothing is recorded until then: a time of the
        monotonic clock, later than now."""
        # one ms later, so that no rounding makes it the last one in which it is exceeded
        return (self._rate.within_at_ms(self.limit_per_s, self._now_ms()) + 1) / 1000

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


class ReplicationQuotas:
    """Those of a broker, whose limits may change while it runs."""

    def __init__(self, live: LiveSettings, clock: Clock) -> None:
        settings = live.now
        self.leader = ReplicationQuota(settings, settings.leader_replication_throttled_rate, clock)
        """Of what is sent to followers."""
        self.follower = ReplicationQuota(
            settings, settings.follower_replication_throttled_rate, clock
        )
        """Of what is fetched from leaders."""
        self.on_change: Callable[[], object] | None = None
        """Called when a limit is another one."""
        live.on_change(self._changed)

    def _changed(self, old: BrokerSettings, new: BrokerSettings) -> None:
        before = (self.leader.limit_per_s, self.follower.limit_per_s)
        self.leader.limit_per_s = new.leader_replication_throttled_rate
        self.follower.limit_per_s = new.follower_replication_throttled_rate
        is_changed = (self.leader.limit_per_s, self.follower.limit_per_s) != before
        if is_changed and self.on_change is not None:
            self.on_change()

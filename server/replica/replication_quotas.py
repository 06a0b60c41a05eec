"""The quotas of replicas whose replication is throttled (KIP-73).

A topic's configs name the throttled replicas (`Replica.throttled_as_leader` and
`throttled_as_follower`). The broker's configs limit how many bytes a second all of them together
may send to followers, and fetch from leaders. All bytes of throttled replicas count, but only
followers that are not in sync have to wait: else a throttle could drive a replica out of the ISR.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.seams import Clock
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.replica.sampled_rate import SampledRate


class ReplicationQuota:
    """The quota for one direction: the limit, and the present rate."""

    def __init__(self, settings: BrokerSettings, limit_per_s: int, clock: Clock) -> None:
        self._rate = SampledRate(
            settings.replication_quota_window_num,
            settings.replication_quota_window_size_seconds * 1000,
        )
        self._clock = clock
        self.limit_per_s = limit_per_s
        """Bytes."""

    def record(self, size_bytes: int) -> None:
        """Count bytes of a throttled replica, within the limit or not."""
        self._rate.record(size_bytes, self._now_ms())

    @property
    def bytes_per_s(self) -> float:
        """The present rate of the throttled replicas."""
        return self._rate.per_s(self._now_ms())

    @property
    def is_exceeded(self) -> bool:
        """Whether throttled replicas that are not in sync have to wait."""
        return self.bytes_per_s > self.limit_per_s

    def free_at_s(self) -> float:
        """When the rate will be within the limit again, if nothing is recorded until then: a time
        of the monotonic clock, later than now."""
        # one ms later, so that no rounding makes it the last one in which it is exceeded
        return (self._rate.within_at_ms(self.limit_per_s, self._now_ms()) + 1) / 1000

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


class ReplicationQuotas:
    """Both quotas of a broker; their limits may change while it runs."""

    def __init__(self, live: LiveSettings, clock: Clock) -> None:
        settings = live.now
        self.leader = ReplicationQuota(settings, settings.leader_replication_throttled_rate, clock)
        """For records sent to followers."""
        self.follower = ReplicationQuota(
            settings, settings.follower_replication_throttled_rate, clock
        )
        """For records fetched from leaders."""
        self.on_change: Callable[[], object] | None = None
        """Called when a limit has changed."""
        live.on_change(self._changed)

    def _changed(self, old: BrokerSettings, new: BrokerSettings) -> None:
        before = (self.leader.limit_per_s, self.follower.limit_per_s)
        self.leader.limit_per_s = new.leader_replication_throttled_rate
        self.follower.limit_per_s = new.follower_replication_throttled_rate
        is_changed = (self.leader.limit_per_s, self.follower.limit_per_s) != before
        if is_changed and self.on_change is not None:
            self.on_change()

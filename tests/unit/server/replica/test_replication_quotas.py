from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.replica.replica import throttled_on
from kavka.server.replica.replication_quotas import ReplicationQuotas
from support.virtual import VirtualClock

ELSEWHERE = "log.retention.ms=5"


def settings(*overrides: str) -> BrokerSettings:
    return BrokerSettings.load(environ={}, overrides=overrides)


def test_limits_change_while_it_runs() -> None:
    live = LiveSettings(settings())
    quotas = ReplicationQuotas(live, VirtualClock())
    changes = []
    quotas.on_change = lambda: changes.append(quotas.follower.limit_per_s)
    for quota in (quotas.leader, quotas.follower):
        quota.record(1 << 40)
        assert not quota.is_exceeded, "there is no limit"
    live.change(settings("follower.replication.throttled.rate=10"))
    assert (quotas.leader.is_exceeded, quotas.follower.is_exceeded) == (False, True)
    live.change(settings("leader.replication.throttled.rate=10"))
    assert (quotas.leader.is_exceeded, quotas.follower.is_exceeded) == (True, False)
    live.change(settings("leader.replication.throttled.rate=10", ELSEWHERE))
    assert changes == [10, 2**63 - 1]


def test_windows_are_those_of_the_settings() -> None:
    clock = VirtualClock()
    live = LiveSettings(
        settings("replication.quota.window.num=2", "replication.quota.window.size.seconds=5")
    )
    quota = ReplicationQuotas(live, clock).leader
    quota.record(1000)
    assert quota.bytes_per_s == 200
    clock.elapsed_ms = 9999
    assert quota.bytes_per_s > 0
    clock.elapsed_ms = 10_000
    assert quota.bytes_per_s == 0


@given(
    st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 10**7)), min_size=1, max_size=20),
    st.integers(0, 10**6),
)
def test_a_timer_for_the_time_when_it_is_free_finds_it_free(
    recorded: list[tuple[float, int]], limit: int
) -> None:
    """Else a fetcher would wait for ever, or in a loop."""
    clock = VirtualClock()
    live = LiveSettings(settings(f"leader.replication.throttled.rate={limit}"))
    quota = ReplicationQuotas(live, clock).leader
    for pause_ms, size in recorded:
        clock.elapsed_ms += pause_ms
        quota.record(size)
    now_s, free_s = clock.monotonic_s(), quota.free_at_s()
    assert free_s > now_s
    clock.elapsed_ms += (free_s - now_s) * 1000
    assert not quota.is_exceeded


def test_a_list_may_have_numbers_that_are_too_long_for_any_replica() -> None:
    """As Apache Kafka's check of the config allows."""
    found = throttled_on(7, ("1:7", "9" * 30_000 + ":7", "2:" + "7" * 30_000, "3:8", "4:7"))
    assert found == {1, 4}

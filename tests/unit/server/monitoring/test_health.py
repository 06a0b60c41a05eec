"""Ready is not yet well."""

from __future__ import annotations

import pytest

from kavka.server.monitoring.health import BrokerState, Health


@pytest.mark.parametrize(
    ("state", "problems", "is_ready", "is_healthy"),
    [
        (BrokerState.RUNNING, (), True, True),
        (BrokerState.RUNNING, ("a disk is gone",), True, False),
        (BrokerState.STARTING, (), False, False),
        (BrokerState.PENDING_CONTROLLED_SHUTDOWN, (), False, False),
        (BrokerState.SHUTTING_DOWN, (), False, False),
        (BrokerState.NOT_RUNNING, (), False, False),
    ],
)
def test_it(
    state: BrokerState, problems: tuple[str, ...], is_ready: bool, is_healthy: bool
) -> None:
    health = Health(state, problems, 1, None)
    assert (health.is_ready, health.is_healthy) == (is_ready, is_healthy)


def test_the_numbers_are_apache_kafka_s() -> None:
    # org.apache.kafka.metadata.BrokerState
    assert {state.name: state.value for state in BrokerState} == {
        "NOT_RUNNING": 0,
        "STARTING": 1,
        "RUNNING": 3,
        "PENDING_CONTROLLED_SHUTDOWN": 6,
        "SHUTTING_DOWN": 7,
    }

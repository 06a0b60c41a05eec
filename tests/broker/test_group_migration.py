"""Groups that go from the classic protocol to that of KIP-848 and back, with members of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from support.broker import StartBroker
from support.groups.clients import (
    BROKER_SETTINGS,
    CONFLUENT,
    CONFLUENT_CONSUMER,
    JAVA_CLASSIC,
    JAVA_CONSUMER,
    KAFKA_PYTHON,
    SESSION,
    GroupClient,
)
from support.groups.scenario import ALONE, SHARED, Scenario

WITHIN_S = 60.0
PATIENCE_MS = "45000"
"""No member dies here, and one that is only slow must not be removed: if it was the last member of
the new protocol the group is downgraded, and its client gives up."""

SETTINGS = {
    **BROKER_SETTINGS,
    "group.consumer.max.session.timeout.ms": PATIENCE_MS,
    "group.consumer.session.timeout.ms": PATIENCE_MS,
}
PATIENT = {**SESSION, "session.timeout.ms": PATIENCE_MS}

CONFLUENT_RANGE = replace(CONFLUENT, settings={**PATIENT, "partition.assignment.strategy": "range"})
"""The assignments of its sticky assignor carry data of their own: no group is upgraded then."""


def type_of_group(bootstrap: str) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listing = admin.list_consumer_groups().result(WITHIN_S)
    assert not listing.errors, listing.errors
    [found] = [group.type for group in listing.valid if group.group_id == SHARED]
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("client", "classic"),
    [
        (CONFLUENT_CONSUMER, CONFLUENT_RANGE),
        (CONFLUENT_CONSUMER, replace(KAFKA_PYTHON, settings=PATIENT)),
        (JAVA_CONSUMER, replace(JAVA_CLASSIC, settings={**JAVA_CLASSIC.settings, **PATIENT})),
    ],
    ids=lambda client: client.name,
)
def test_members_of_both_protocols_share_a_group(
    start_broker: StartBroker, client: GroupClient, classic: GroupClient, tmp_path: Path
) -> None:
    """While its members come and go a group is upgraded, downgraded and upgraded once more."""
    for needed in (client, classic):
        needed.start()  # what it needs is installed
    broker = start_broker(**SETTINGS)
    with Scenario(broker, client, tmp_path) as scenario:
        new, old = scenario.host(), scenario.host(classic)
        scenario.join(old, ALONE)
        first = scenario.join(old)
        scenario.await_stable("a classic member")
        assert type_of_group(broker.bootstrap) == ConsumerGroupType.CLASSIC
        second = scenario.join(new)
        scenario.await_stable("upgraded")
        assert type_of_group(broker.bootstrap) == ConsumerGroupType.CONSUMER
        scenario.join(old)
        scenario.await_stable("one more classic member")
        scenario.restart_broker()
        scenario.await_stable("broker killed and restarted")
        scenario.leave(second)
        scenario.await_stable("downgraded")
        assert type_of_group(broker.bootstrap) == ConsumerGroupType.CLASSIC
        scenario.join(new)
        scenario.await_stable("upgraded again")
        scenario.leave(first)
        scenario.await_stable("a classic member left")
        assert type_of_group(broker.bootstrap) == ConsumerGroupType.CONSUMER
        scenario.finish()
        complaints = scenario.complaints()
        assert not complaints, "\n".join([*complaints[:20], scenario.tail()])

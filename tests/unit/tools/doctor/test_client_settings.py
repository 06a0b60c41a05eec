"""Settings of clients that can't work are named, and those just beside them are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kavka.tools.doctor.client_settings import Environment, Settings, judge_settings
from kavka.tools.doctor.findings import Level
from kavka.tools.doctor.versions import Served

SERVED: Mapping[tuple[int, ...], Served] = BROKER_API_VERSIONS
"""By release of Apache Kafka, as kafka-python knows it."""

LIMITS = {"message.max.bytes": "1048588", "transaction.max.timeout.ms": "900000"}
NOW = Environment(LIMITS, SERVED[4, 3], frozenset({"east"}))


def named(config: Settings, environment: Environment = NOW) -> set[tuple[str, str]]:
    """What is wrong: problems, and the settings that have them."""
    found = judge_settings(config, environment)
    assert {finding.level for finding in found} == {Level.OK} or all(
        finding.advice for finding in found
    )
    return {(finding.problem, finding.subject) for finding in found if finding.level > Level.OK}


@pytest.mark.parametrize(
    ("problem", "subject", "wrong", "right"),
    [
        (
            "delivery-timeout",
            "delivery.timeout.ms",
            {"delivery.timeout.ms": "30004"},
            {"delivery.timeout.ms": "30005"},
        ),
        (
            "delivery-timeout",
            "delivery.timeout.ms",
            {"delivery.timeout.ms": "9999", "request.timeout.ms": "9000", "linger.ms": "1000"},
            {"delivery.timeout.ms": "9999", "request.timeout.ms": "9000", "linger.ms": "999"},
        ),
        (
            "fetch-wait",
            "fetch.max.wait.ms",
            {"fetch.max.wait.ms": "30000"},
            {"fetch.max.wait.ms": "29999"},
        ),
        (
            "fetch-wait",
            "fetch.max.wait.ms",
            {"request.timeout.ms": "500"},
            {"request.timeout.ms": "501"},
        ),
        (
            "poll-interval",
            "max.poll.interval.ms",
            {"max.poll.interval.ms": "44999"},
            {"max.poll.interval.ms": "45000"},
        ),
        (
            "request-size",
            "max.request.size",
            {"max.request.size": "1048589"},
            {"max.request.size": "1048588"},
        ),
        (
            "transactional-without-idempotence",
            "transactional.id",
            {"transactional.id": "t", "enable.idempotence": "false"},
            {"transactional.id": "t", "enable.idempotence": "true"},
        ),
    ],
)
def test_what_cant_work_is_named(
    problem: str, subject: str, wrong: Settings, right: Settings
) -> None:
    assert named(wrong) == {(problem, subject)}
    assert not named(right)


@pytest.mark.parametrize(
    ("problem", "wrong", "too_old", "just_enough"),
    [
        ("no-transactions", {"transactional.id": "t"}, (0, 10, 2), (0, 11)),
        ("zstd", {"compression.type": "zstd"}, (2, 0), (2, 1)),
        ("group-protocol", {"group.protocol": "consumer"}, (3, 6), (3, 7)),
    ],
)
def test_what_a_release_does_not_have_yet(
    problem: str, wrong: Settings, too_old: tuple[int, ...], just_enough: tuple[int, ...]
) -> None:
    (subject,) = wrong
    assert named(wrong, NOW._replace(served=SERVED[too_old])) == {(problem, subject)}
    assert not named(wrong, NOW._replace(served=SERVED[just_enough]))


def test_a_timeout_of_transactions_alone_makes_no_transactions() -> None:
    old = NOW._replace(served=SERVED[0, 10, 2])
    assert not named({"transaction.timeout.ms": "60000"}, old)


def test_limits_that_brokers_do_not_tell_are_not_judged() -> None:
    environment = NOW._replace(broker={})
    assert not named({"max.request.size": "99999999", "batch.size": "99999999"}, environment)
    assert not named({"transactional.id": "t", "transaction.timeout.ms": "99999999"}, environment)

"""The short form of a check: a few APIs of Kavka and of Apache Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kavka.compat_tests.broker import own_for_protocol
from kavka.compat_tests.raw.checking import check
from kavka.compat_tests.raw.configs import LOGGER
from kavka.compat_tests.raw.link import Link
from kavka.compat_tests.raw.outcomes import ApiOutcome, Verdict
from kavka.compat_tests.raw.restoring import Before, Caretaker
from kavka.compat_tests.raw.survey import Unsuitable, survey
from support.broker import Kavka
from support.oracle import ApacheKafka
from support.ports import HOST, free_port
from support.process import BrokerProcess, running

APIS = ("ListOffsets", "CreateTopics", "DescribeCluster", "IncrementalAlterConfigs")
APIS_OF_OTHERS = ("Metadata", "DescribeTopicPartitions", "DescribeConfigs", "CreateTopics")
APIS_WITH_NEEDS = ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "GetTelemetrySubscriptions")
"""Which can only be tried on a broker that is set for that."""
ALSO_FAILS = {"broker, TLS: a keystore's secret", "broker, TLS: a login's secret"}
"""Where Kavka is different."""


async def checked(broker: BrokerProcess, apis: Sequence[str] = APIS) -> list[ApiOutcome]:
    """Check it, and see that it is left as it was."""
    address = f"{HOST}:{broker.port}"
    heard: list[ApiOutcome] = []
    facts = survey(address, "raw-test-")
    assert facts.limits_partitions
    with Link(HOST, broker.port) as link:
        caretaker = Caretaker(link, facts)
        before, topics = caretaker.before(), set(caretaker.topics())
        found = await check(address, apis, heard.extend)
        assert without_new_loggers(caretaker.before(), before) == before
        left = {name for name in set(caretaker.topics()) - topics if name.startswith("raw-")}
        assert not left
    assert found == heard
    assert {outcome.api for outcome in found} == set(apis)
    return found


def without_new_loggers(after: Before, before: Before) -> Before:
    """A broker's logger comes when it is first used."""
    configs = {
        resource: value
        for resource, value in after.configs.items()
        if resource[0] != LOGGER or resource in before.configs
    }
    return Before(configs, after.features)


def failed(outcomes: Sequence[ApiOutcome]) -> set[str]:
    return {str(failure) for outcome in outcomes for failure in outcome.failures}


async def test_kavka_fails_only_where_it_is_different(tmp_path: Path) -> None:
    broker = Kavka(tmp_path)
    with running([broker]):
        found = await checked(broker)
    cases = {failure.case for outcome in found for failure in outcome.failures}
    assert cases == ALSO_FAILS, failed(found)
    assert {outcome.verdict for outcome in found} == {Verdict.PASSED, Verdict.FAILED}


async def test_no_case_is_left_out_on_the_suites_own_kavka() -> None:
    async with own_for_protocol() as broker:
        found = await check(broker.bootstrap, APIS_WITH_NEEDS)
    assert {outcome.verdict for outcome in found} == {Verdict.PASSED}, failed(found)
    assert not [outcome for outcome in found if outcome.left_out]


async def test_apache_kafka_with_settings_of_its_own_never_fails(tmp_path: Path) -> None:
    settings = {"node.id": "5", "num.partitions": "3", "log.segment.bytes": "5000000"}
    broker = ApacheKafka(tmp_path, settings)
    with running([broker]):
        found = await checked(broker, APIS_OF_OTHERS)
    assert not failed(found)


async def test_where_no_broker_is_there_is_nothing_to_check() -> None:
    with pytest.raises(Unsuitable):
        await check(f"{HOST}:{free_port()}")
    with pytest.raises(Unsuitable):
        await check("nowhere")

"""Which releases of Apache Kafka clients can work with."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kavka.tools.doctor.findings import Finding, Level
from kavka.tools.doctor.versions import Served, judge_differences, judge_versions

RELEASES: Mapping[tuple[int, ...], Served] = BROKER_API_VERSIONS
"""What each serves, as kafka-python knows it."""

PRODUCE_V3 = (0, 11)
"""The first release with what clients of Apache Kafka 4 write (KIP-896)."""


def judge(served: Served) -> Finding:
    return judge_versions("broker.test:9092", served)


@pytest.mark.parametrize(
    "release", [release for release in RELEASES if release >= (0, 10)], ids=str
)
def test_a_release_is_too_old_or_right(release: tuple[int, ...]) -> None:
    found = judge(RELEASES[release])
    if release < PRODUCE_V3:
        assert (found.level, found.problem) == (Level.ERROR, "too-old")
        assert "Produce, Fetch" in found.found
    else:
        assert found.level == Level.OK


@pytest.mark.parametrize("key", [ApiKey.Produce, ApiKey.ListOffsets, ApiKey.SyncGroup])
def test_what_serves_not_all_is_no_broker_for_clients(key: ApiKey) -> None:
    rest = {api_key: versions for api_key, versions in RELEASES[4, 3].items() if api_key != key}
    found = judge(rest)
    assert (found.level, found.problem) == (Level.ERROR, "apis-missing")
    assert found.found == f"does not serve {key.name}"


def test_brokers_of_two_releases_differ() -> None:
    new, old = RELEASES[4, 3], RELEASES[3, 9]
    (found,) = judge_differences({"broker 1": new, "broker 3": new, "broker 2": old})
    assert (found.level, found.problem) == (Level.NOTE, "brokers-differ")
    assert found.subject == "broker 1, broker 2, broker 3"


def test_brokers_of_one_release_do_not_differ() -> None:
    new = RELEASES[4, 3]
    assert not judge_differences({"broker 1": new, "broker 2": dict(reversed(list(new.items())))})
    assert not judge_differences({})

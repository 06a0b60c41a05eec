"""Apache Kafka's own integration tests, as published, on Kavka.

A table says of each test that it passes, or why it can't. One that has no place in the table fails.
The classes are in `kafka-clients-integration-tests`; `ClientTelemetryTest` is also the name of one
in `kafka-server`, which tests a class of Apache Kafka's broker, without a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support import foreign_java
from support.foreign_clusters import APACHE_KAFKA, KAVKA, Asked, NotApplicableError, Starter
from support.foreign_java import PASSES

CLIENTS: Final = "org.apache.kafka.clients"
METADATA: Final = f"{CLIENTS}.MetadataVersionIntegrationTest"
TELEMETRY: Final = f"{CLIENTS}.admin.ClientTelemetryTest"


def at_level(level: int) -> str:
    """Of a test that is about a cluster with the metadata of an older release: Kavka has none, it
    keeps its metadata in ZooKeeper's tree (docs/features.md)."""
    reason = f"it asks for a cluster at metadata.version {level}"
    return f"not applicable: {reason}, and Kavka's stays at 30"


# 31 is a level for tests of the release after 4.3: Apache Kafka has it as an unstable one, if it
# is started so; as its users start it, it has 30, and this test fails on it, too.
NOT_YET_RELEASED: Final = (
    "fails: If this test fails, check the default MetadataVersion in the @ClusterTest annotation "
    "==> expected: <31> but was: <30>"
)

ON_KAVKA: Final[Mapping[str, Mapping[str, str]]] = {
    METADATA: {
        "testBasicMetadataVersionUpgrade[1]": at_level(7),
        "testBasicMetadataVersionUpgrade[2]": at_level(8),
        "testBasicMetadataVersionUpgrade[3]": at_level(9),
        "testBasicMetadataVersionUpgrade[4]": at_level(12),
        "testBasicMetadataVersionUpgrade[5]": at_level(13),
        "testUpgradeSameVersion[1]": at_level(21),
        "testDefaultIsLatestVersion[1]": NOT_YET_RELEASED,
    },
    TELEMETRY: {
        "testClientInstanceId[1]": PASSES,
        "testIntervalMsParser[1]": PASSES,
        "testIntervalMsParser[2]": PASSES,
        "testMetrics[1]": PASSES,
    },
}


def expected(suite: str, starter: Starter) -> dict[str, str]:
    if starter is KAVKA:
        return dict(ON_KAVKA[suite])
    return dict.fromkeys(ON_KAVKA[suite], PASSES)


@pytest.mark.parametrize("starter", [KAVKA, APACHE_KAFKA], ids=lambda starter: starter.kind)
@pytest.mark.parametrize("suite", ON_KAVKA, ids=lambda name: name.rpartition(".")[2])
def test_apache_kafka_s_own_tests(suite: str, starter: Starter, tmp_path: Path) -> None:
    found = foreign_java.run(suite, starter, tmp_path)
    for test, outcome in found.items():
        print(f"{starter.kind}: {suite}.{test}: {outcome}")
    assert found == expected(suite, starter)


def test_a_cluster_that_fails_is_reported(tmp_path: Path) -> None:
    @contextmanager
    def failing(requested: Asked, home: Path) -> Iterator[str]:
        raise AssertionError("planted")
        yield ""

    found = foreign_java.run(TELEMETRY, Starter("failing", failing), tmp_path)
    assert found.keys() == ON_KAVKA[TELEMETRY].keys()
    for outcome in found.values():
        assert outcome.startswith("fails: ")
        assert "AssertionError: planted" in outcome


def test_what_no_cluster_is_given_is_named() -> None:
    request = {
        "asked": {"brokers": 3, "controllers": 3, "disksPerBroker": 2},
        "metadataVersion": {"name": "4.4-IV0", "level": 31},
    }
    with pytest.raises(NotApplicableError, match="it asks for controllers 3, disksPerBroker 2"):
        Asked.read(request)

"""`kavka features` prints what kafka-features prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from commands.sessions import differences
from kavka.cli import main
from kavka.tools.admin.features import TOOL
from support import java
from support.broker import Kavka
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

FEATURE_COMMAND = "org.apache.kafka.tools.FeatureCommand"

LINES = """
    upgrade
    upgrade --dry-run --feature group.version=0
    upgrade --dry-run --feature transaction.version=9
    upgrade --dry-run --feature nothing=1 --feature group.version=1
    upgrade --dry-run --feature group.version
    upgrade --dry-run --feature group.version=x
    upgrade --dry-run --feature group.version=1 --feature group.version=1
    upgrade --dry-run --feature group.version=-1
    upgrade --dry-run --feature =1
    upgrade --dry-run --metadata 4.3-IV0
    upgrade --dry-run --metadata 9.9
    upgrade --dry-run --release-version 4.3
    upgrade --release-version 4.3 --feature group.version=1
    downgrade --dry-run --release-version 4.0
    downgrade --dry-run --feature share.version=0
    downgrade --dry --unsafe --feature share.version=0
    disable --dry-run --feature streams.version
    disable --dry-run --feature streams.version --feature streams.version
    disable
    describe --node-id 99x
    describe --node-id -1
    version-mapping
    version-mapping --release-version 3.3
    version-mapping --release-version 3.9-IV0
    version-mapping --release-version 4.0.1
    version-mapping --release-version 4.0-IV2
    version-mapping --release-version 4.1
    version-mapping --release-version 4.4-IV0
    version-mapping --release-version 4.4
    version-mapping --release-version 3
    feature-dependencies --feature metadata.version=5 --feature metadata.version=22
    feature-dependencies --feature metadata.version=22 --feature metadata.version=99
    feature-dependencies --feature eligible.leader.replicas.version=1 --feature group.version=1
    feature-dependencies --feature eligible.leader.replicas.version=0
    feature-dependencies --feature transaction.version=3
    feature-dependencies --feature nothing=3
    feature-dependencies
    nothing
    !describe
    !version-mapping --release-version 3.7
    !
"""


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    brokers = [kind(tmp_path / f"broker-{number}", {}) for number in (1, 2)]
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        same = [brokers[0], brokers[0]]
        config = tmp_path / "client.properties"
        config.write_text("client.id=features-tool\nrequest.timeout.ms=20000\n")
        lines = f"!--bootstrap-controller {{}} --command-config {config} describe"
        found = [*differences(TOOL, FEATURE_COMMAND, tools, brokers, LINES)]
        if kind is Kavka:  # Apache Kafka's epoch grows between the two
            described = "describe\ndescribe --node-id 1"
            found += differences(TOOL, FEATURE_COMMAND, tools, same, described)
            refused = lines.format(brokers[0].bootstrap)  # its brokers are no controllers
            found += differences(TOOL, FEATURE_COMMAND, java, same, refused)
        else:
            described = lines.format(controller_of(brokers[0]))
            found += differences(TOOL, FEATURE_COMMAND, tools, same, described, without_epoch)
        assert not found, "\n".join(found)


def controller_of(broker: BrokerProcess) -> str:
    """The address of its controller."""
    properties = (broker.home / "server.properties").read_text()
    found = re.search(r"quorum.bootstrap.servers=(\S+)", properties)
    assert found is not None
    return found[1]


def without_epoch(text: str) -> str:
    """Which grows all the time."""
    return re.sub(r"Epoch: \d+", "Epoch: NUMBER", text)


WORDS = "--feature metadata.version=22 --feature eligible.leader.replicas.version=1 --output"


@pytest.mark.parametrize("tool", ["features", "storage"])
def test_dependencies_for_programs(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The levels are those that Apache Kafka 4.3.1's tool prints."""
    assert main([tool, "feature-dependencies", *WORDS.split(), "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "dependencies": [
            {
                "feature": "metadata.version",
                "level": 22,
                "neededFeature": None,
                "neededLevel": None,
            },
            {
                "feature": "eligible.leader.replicas.version",
                "level": 1,
                "neededFeature": "metadata.version",
                "neededLevel": 23,
            },
        ]
    }
    assert main([tool, "feature-dependencies", *WORDS.split(), "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "metadata.version,22,,",
        "eligible.leader.replicas.version,1,metadata.version,23",
    ]

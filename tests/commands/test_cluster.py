"""`kavka cluster` prints what kafka-cluster prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands.sessions import differences
from kavka.tools.admin.cluster import TOOL
from support import java
from support.broker import Kavka
from support.java_tools import Tools
from support.kavka_cluster import serving
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

CLUSTER_TOOL = "org.apache.kafka.tools.ClusterTool"

LINES = """
    cluster-id --bootstrap-server BROKER
    cluster-id -b BROKER
    cluster-id --bootstrap-s=BROKER
    clus -bBROKER
    cluster-id --config FILE -b BROKER
    cluster-id --command-config FILE -b BROKER
    cluster-id -c FILE --config FILE -b BROKER
    cluster-id -c FILE.none -b BROKER
    list-endpoints -b BROKER
    list-endpoints -b 127.0.0.1:1 -b BROKER
    list-endpoints -b BROKER --include-fenced-brokers
    list-endpoints -b BROKER --inc
    list-endpoints --bootstrap-controller BROKER
    unregister -b BROKER --id 7
    unregister -b BROKER -i7
    !list-endpoints --bootstrap-controller 127.0.0.1:1 --include-fenced-brokers
"""

REFUSED = """
    --bootstrap-server BROKER cluster-id
    cluster-id -b BROKER --bootstrap-controller BROKER
    cluster-id -b BROKER --id 7
    cluster-id -b BROKER and more
    cluster-id --bootstrap BROKER
    unregister -b BROKER
    unregister -b BROKER --id one
    unregister -b BROKER --id 3000000000
    unregister -b BROKER --id
    unregister -b BROKER --id --id
    list-endpoints -b BROKER --include-fenced-brokers=yes
    list-endpoints -b BROKER -x
    !cluster-id
    !nothing
    !
"""
"""What their parser refuses, which ends the process."""

OF_CONTROLLERS = """
    !cluster-id --bootstrap-controller CONTROLLER
    !list-endpoints -C CONTROLLER
    !list-endpoints -C CONTROLLER --include-fenced-brokers
    !unregister -C CONTROLLER --id 7
"""


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    config = tmp_path / "client.properties"
    config.write_text("client.id=cluster-tool\n")
    lines = LINES.replace("FILE", str(config))
    broker = kind(tmp_path / "broker", {"broker.rack": "here"})
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        found = [
            *differences(TOOL, CLUSTER_TOOL, tools, [broker, broker], lines),
            *differences(TOOL, CLUSTER_TOOL, java, [broker, broker], REFUSED),
        ]
        assert not found, "\n".join(found)


def test_controllers_are_asked_and_brokers_unregistered(tmp_path: Path) -> None:
    """Apache Kafka only: Kavka has no KRaft controllers, nor brokers that stay registered."""
    java.program("java")
    brokers = [ApacheKafka(tmp_path / f"broker-{number}", {}) for number in (1, 2)]
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        properties = (brokers[0].home / "server.properties").read_text()
        controller = re.search(r"quorum.bootstrap.servers=(\S+)", properties)
        assert controller is not None
        lines = OF_CONTROLLERS.replace("CONTROLLER", controller[1])
        found = [
            *differences(TOOL, CLUSTER_TOOL, tools, [brokers[0], brokers[0]], lines),
            *differences(TOOL, CLUSTER_TOOL, tools, brokers, "unregister -b BROKER --id 1"),
        ]
        assert not found, "\n".join(found)


def test_a_cluster_of_three(tmp_path: Path) -> None:
    java.program("java")
    with serving(tmp_path, {}) as cluster, Tools(tmp_path / "tools.log") as tools:
        lines = "list-endpoints -b BROKER\ncluster-id -b BROKER"
        broker = cluster.members[1]
        reads = ("list-endpoints",)  # a broker that has just come may be missing at first
        found = [*differences(TOOL, CLUSTER_TOOL, tools, [broker, broker], lines, reads=reads)]
        assert not found, "\n".join(found)

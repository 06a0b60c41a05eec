"""Names in Prometheus, as the JMX exporter's example rules for Kafka give them.

`RULES` is what `example_configs/kafka-2_0_0.yml` of prometheus/jmx_exporter does to the names of
counters, gauges and histograms, tried on MBeans as its author meant them.
"""

from __future__ import annotations

import re

import pytest

from kavka.server.monitoring.metrics.row import Kind, Metric

COUNTER, GAUGE, SUMMARY = Kind.COUNTER, Kind.GAUGE, Kind.SUMMARY

RULES = {  # (pattern of domain<type, name>, name) by what is exported: Count of a meter, Value, ...
    COUNTER: (r"kafka\.(\w+)<type=(.+), name=(.+)PerSec\w*><>Count", r"kafka_\1_\2_\3_total"),
    GAUGE: (r"kafka\.(\w+)<type=(.+), name=(.+)><>Value", r"kafka_\1_\2_\3"),
    SUMMARY: (r"kafka\.(\w+)<type=(.+), name=(.+)><>(\d+)thPercentile", r"kafka_\1_\2_\3"),
}
COORDINATORS = "kafka.coordinator."
ATTRIBUTES = {COUNTER: "Count", GAUGE: "Value", SUMMARY: "99thPercentile"}


def by_the_rules(name: str, kind: Kind) -> str:
    """What the exporter calls the MBean `name`, in lower case and with what it may not have
    replaced, as the exporter does behind its rules."""
    domain, _, properties = name.partition(":")
    if domain.startswith(COORDINATORS):  # for which the rules of others have one more part
        domain = domain.replace(COORDINATORS, "kafka.coordinator_")
    bean = f"{domain}<{', '.join(properties.split(','))}><>{ATTRIBUTES[kind]}"
    pattern, template = RULES[kind]
    match = re.fullmatch(pattern, bean)
    assert match is not None, bean
    return re.sub(r"[^a-z0-9_]", "_", match.expand(template).lower())


def named(name: str, kind: Kind) -> str:
    return Metric(name, kind, (), "", lambda view: ()).prometheus


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
            COUNTER,
            "kafka_server_brokertopicmetrics_messagesin_total",
        ),
        (
            "kafka.network:type=RequestMetrics,name=TotalTimeMs",
            SUMMARY,
            "kafka_network_requestmetrics_totaltimems",
        ),
        (
            "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
            GAUGE,
            "kafka_server_replicamanager_underreplicatedpartitions",
        ),
        (
            "kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
            GAUGE,
            "kafka_server_kafkaserver_linux_disk_read_bytes",
        ),
    ],
)
def test_names(name: str, kind: Kind, expected: str) -> None:
    assert named(name, kind) == expected
    assert by_the_rules(name, kind) == expected


def test_an_attribute_is_the_end_of_the_name() -> None:
    name = "kafka.server:type=socket-server-metrics#connection-creation-total"
    expected = "kafka_server_socket_server_metrics_connection_creation_total"
    assert named(name, COUNTER) == expected


def test_other_names_are_taken_as_they_are() -> None:
    assert named("process_cpu_seconds_total", COUNTER) == "process_cpu_seconds_total"

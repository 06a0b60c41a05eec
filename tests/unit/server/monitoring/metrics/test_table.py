"""The table as a whole: names that Apache Kafka has, each once, named as others name them."""

from __future__ import annotations

import pytest

from kavka.server.monitoring.metrics.row import Kind, Metric
from kavka.server.monitoring.metrics.table import TABLE
from unit.server.monitoring.metrics.test_row import by_the_rules

LABELS = {  # the tags that Apache Kafka's MBeans of a type have beside type and name
    "kafka.server:type=BrokerTopicMetrics": ("topic",),
    "kafka.network:type=RequestMetrics": ("request", "version", "error"),
    "kafka.server:type=DelayedOperationPurgatory": ("delayedOperation",),
    "kafka.server:type=DelayedFetchMetrics": ("fetcherType",),
    "kafka.server:type=socket-server-metrics": ("listener", "networkProcessor"),
    "kafka.server:type=app-info": ("id",),
    "kafka.log:type=Log": ("topic", "partition"),
    "kafka.log:type=LogManager": ("logDirectory",),
    "kafka.log:type=LogCleanerManager": ("logDirectory",),
    "kafka.cluster:type=Partition": ("topic", "partition"),
    "kafka.server:type=group-coordinator-metrics": ("protocol", "state"),
}

APACHE = {  # MBeans of Apache Kafka 3.9: `newMeter`, `newGauge`, `newHistogram`, `newTimer`
    "kafka.server:type=BrokerTopicMetrics": {
        *("MessagesInPerSec", "BytesInPerSec", "BytesOutPerSec", "BytesRejectedPerSec"),
        *("ReplicationBytesInPerSec", "ReplicationBytesOutPerSec", "FailedProduceRequestsPerSec"),
        *("FailedFetchRequestsPerSec", "TotalProduceRequestsPerSec", "TotalFetchRequestsPerSec"),
        *("FetchMessageConversionsPerSec", "ProduceMessageConversionsPerSec"),
        *("ReassignmentBytesInPerSec", "ReassignmentBytesOutPerSec"),
        *("NoKeyCompactedTopicRecordsPerSec", "InvalidMagicNumberRecordsPerSec"),
        *("InvalidMessageCrcRecordsPerSec", "InvalidOffsetOrSequenceRecordsPerSec"),
    },
    "kafka.network:type=RequestMetrics": {
        *("RequestsPerSec", "DeprecatedRequestsPerSec", "ErrorsPerSec", "RequestQueueTimeMs"),
        *("LocalTimeMs", "RemoteTimeMs", "ThrottleTimeMs", "ResponseQueueTimeMs"),
        *("ResponseSendTimeMs", "TotalTimeMs", "RequestBytes", "MessageConversionsTimeMs"),
        "TemporaryMemoryBytes",
    },
    "kafka.server:type=ReplicaManager": {
        *("LeaderCount", "PartitionCount", "OfflineReplicaCount", "UnderReplicatedPartitions"),
        *("UnderMinIsrPartitionCount", "AtMinIsrPartitionCount", "ReassigningPartitions"),
        *("PartitionsWithLateTransactionsCount", "ProducerIdCount", "IsrExpandsPerSec"),
        *("IsrShrinksPerSec", "FailedIsrUpdatesPerSec"),
    },
    "kafka.controller:type=KafkaController": {
        *("ActiveControllerCount", "OfflinePartitionsCount", "PreferredReplicaImbalanceCount"),
        *("ControllerState", "GlobalTopicCount", "GlobalPartitionCount", "TopicsToDeleteCount"),
        *("ReplicasToDeleteCount", "TopicsIneligibleToDeleteCount", "ActiveBrokerCount"),
        *("ReplicasIneligibleToDeleteCount", "FencedBrokerCount", "ZkMigrationState"),
    },
    "kafka.server:type=DelayedOperationPurgatory": {"PurgatorySize", "NumDelayedOperations"},
    "kafka.server:type=DelayedFetchMetrics": {"ExpiresPerSec"},
    "kafka.server:type=DelayedProduceMetrics": {"ExpiresPerSec"},
    "kafka.server:type=FetchSessionCache": {
        *("NumIncrementalFetchSessions", "NumIncrementalFetchPartitionsCached"),
        "IncrementalFetchSessionEvictionsPerSec",
    },
    "kafka.server:type=socket-server-metrics": {
        *("connection-count", "connection-creation-total", "connection-close-total"),
    },
    "kafka.server:type=LeaderReplication": {"byte-rate"},  # `ReplicationQuotaManager`
    "kafka.server:type=FollowerReplication": {"byte-rate"},
    "kafka.server:type=KafkaServer": {
        *("BrokerState", "ClusterId", "linux-disk-read-bytes", "linux-disk-write-bytes"),
    },
    "kafka.server:type=app-info": {"Version", "CommitId", "StartTimeMs"},
    "kafka.log:type=Log": {"Size", "NumLogSegments", "LogStartOffset", "LogEndOffset"},
    "kafka.log:type=LogFlushStats": {"LogFlushRateAndTimeMs"},
    "kafka.log:type=LogManager": {"OfflineLogDirectoryCount", "LogDirectoryOffline"},
    "kafka.log:type=LogCleaner": {
        *("max-buffer-utilization-percent", "cleaner-recopy-percent", "max-clean-time-secs"),
        *("max-compaction-delay-secs", "DeadThreadCount"),
    },
    "kafka.log:type=LogCleanerManager": {
        *("uncleanable-partitions-count", "uncleanable-bytes", "max-dirty-percent"),
        "time-since-last-run-ms",
    },
    "kafka.coordinator.group:type=GroupMetadataManager": {
        *("NumGroups", "NumOffsets", "NumGroupsPreparingRebalance", "NumGroupsStable"),
        *("NumGroupsCompletingRebalance", "NumGroupsDead", "NumGroupsEmpty"),
    },
    "kafka.server:type=group-coordinator-metrics": {
        *("group-count", "consumer-group-count", "num-partitions"),
        *("partition-load-time-max", "partition-load-time-avg"),
        *("offset-commit-count", "offset-expiration-count", "offset-deletion-count"),
        *("group-completed-rebalance-count", "consumer-group-rebalance-count"),
    },
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager": {
        *("UnknownDestinationQueueSize", "LogAppendRetryQueueSize"),
    },
    "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate": {"Count"},
    "kafka.server:type=AddPartitionsToTxnManager": {"VerificationTimeMs"},
    "kafka.server:type=transaction-coordinator-metrics": {
        *("partition-load-time-max", "partition-load-time-avg"),
    },
    "kafka.server:type=client-metrics": {
        *("instance-count", "unknown-subscription-request-count", "throttle-count"),
        *("plugin-export-count", "plugin-error-count"),
    },
    "kafka.cluster:type=Partition": {
        *("UnderReplicated", "InSyncReplicasCount", "UnderMinIsr", "AtMinIsr", "ReplicasCount"),
        "LastStableOffsetLag",
    },
}

OF_APACHE = [row for row in TABLE if ":" in row.name]


def split(row: Metric) -> tuple[str, str]:
    """Type and name, or type and attribute."""
    if "#" in row.name:
        bean, _, attribute = row.name.partition("#")
        return bean, attribute
    bean, _, name = row.name.partition(",name=")
    return bean, name


@pytest.mark.parametrize("row", OF_APACHE, ids=lambda row: row.name)
def test_apache_kafka_has_it(row: Metric) -> None:
    bean, name = split(row)
    assert name in APACHE[bean]
    assert set(row.labels) <= set(LABELS.get(bean, ()))
    if "#" not in row.name:
        assert row.prometheus == by_the_rules(row.name, row.kind)
        assert (row.kind is Kind.COUNTER) == name.endswith("PerSec")


def test_names_are_unique() -> None:
    names = [row.prometheus for row in TABLE]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.prometheus)
def test_each_says_what_it_is(row: Metric) -> None:
    assert row.doc.endswith(".")
    assert "\n" not in row.doc
    assert (row.kind is Kind.COUNTER) == row.prometheus.endswith("_total")


def test_common_dashboards_find_what_they_look_for() -> None:
    """Names that the dashboards made for the exporter's rules use."""
    assert {
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_server_brokertopicmetrics_bytesin_total",
        "kafka_server_brokertopicmetrics_bytesout_total",
        "kafka_server_brokertopicmetrics_totalproducerequests_total",
        "kafka_server_brokertopicmetrics_totalfetchrequests_total",
        "kafka_server_brokertopicmetrics_failedproducerequests_total",
        "kafka_server_brokertopicmetrics_failedfetchrequests_total",
        "kafka_server_replicamanager_leadercount",
        "kafka_server_replicamanager_partitioncount",
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_server_replicamanager_underminisrpartitioncount",
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_controller_kafkacontroller_globaltopiccount",
        "kafka_controller_kafkacontroller_globalpartitioncount",
        "kafka_network_requestmetrics_requests_total",
        "kafka_network_requestmetrics_errors_total",
        "kafka_network_requestmetrics_totaltimems",
        "kafka_network_requestmetrics_requestqueuetimems",
        "kafka_network_requestmetrics_localtimems",
        "kafka_network_requestmetrics_remotetimems",
        "kafka_network_requestmetrics_responsequeuetimems",
        "kafka_network_requestmetrics_responsesendtimems",
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "kafka_server_kafkaserver_brokerstate",
        "kafka_server_socket_server_metrics_connection_count",
        "kafka_log_log_size",
        "kafka_log_log_logstartoffset",
        "kafka_log_log_logendoffset",
        "kafka_log_logflushstats_logflushrateandtimems",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    } <= {row.prometheus for row in TABLE}

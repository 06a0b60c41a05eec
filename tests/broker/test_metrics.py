"""A broker's pages over real HTTP, after what stock clients did; the judges are http.client,
prometheus-client's parser, the clients' own counts and the files on the disk."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from kavka.server.monitoring.metrics.table import TABLE
from support.broker import StartBroker
from support.metrics import get, scrape
from support.ports import HOST, free_port
from support.process import BrokerProcess
from support.wait import eventually

RECORDS = 1000
VALUE_BYTES = 100
PARTITIONS = 3
TOPIC = "watched"
TRAFFIC = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"


def produce(broker: BrokerProcess) -> dict[str, float]:
    """Write with a stock client; what it says that it sent."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", linger_ms=5)
    for number in range(RECORDS):
        producer.send(TOPIC, b"v" * VALUE_BYTES, partition=number % PARTITIONS)
    producer.flush()
    own = producer.metrics()
    producer.close()
    return {name: float(value) for name, value in own["producer-metrics"].items()}


def commit(broker: BrokerProcess) -> None:
    """Have a group that has read nothing."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="g")
    consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(0, "", -1)})
    consumer.close()


def consume(broker: BrokerProcess) -> int:
    """Read all of it with a stock client; how many records came."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
    found = 0
    while found < RECORDS:
        batches = consumer.poll(timeout_ms=30_000)
        assert batches, "records are missing"
        found += sum(map(len, batches.values()))
    consumer.close()
    return found


def segment_bytes(data: Path) -> dict[str, int]:
    """Sizes of the logs on the disk, by partition."""
    return {
        directory.name.rpartition("-")[2]: sum(
            segment.stat().st_size for segment in directory.glob("*.log")
        )
        for directory in data.glob(f"{TOPIC}-*")
    }


def test_metrics_are_what_stock_clients_sent_and_got(start_broker: StartBroker) -> None:
    port = free_port()
    broker = start_broker(**{"kavka.http.listener": f"{HOST}:{port}"})
    before = scrape(port)
    assert before[f"{TRAFFIC}messagesin_total"] == 0
    sent = produce(broker)
    assert consume(broker) == RECORDS
    found = scrape(port)
    on_disk = segment_bytes(broker.data_dir)
    assert found.of(f"{TRAFFIC}messagesin_total", topic=TOPIC) == RECORDS
    assert found[f"{TRAFFIC}messagesin_total"] == RECORDS
    assert found.of(f"{TRAFFIC}bytesin_total", topic=TOPIC) == sum(on_disk.values())
    bytes_out = found.of(f"{TRAFFIC}bytesout_total", topic=TOPIC)
    assert bytes_out >= sum(on_disk.values()), "all was read, some of it perhaps twice"
    sizes = found.all("kafka_log_log_size")
    assert {partition: size for (partition, _), size in sizes.items()} == on_disk
    ends = found.all("kafka_log_log_logendoffset")
    assert sum(ends.values()) == RECORDS
    requests = found.all(f"{REQUESTS}requests_total")
    produced = sum(count for (api, _), count in requests.items() if api == "Produce")
    assert produced == found.of(f"{REQUESTS}totaltimems_count", request="Produce")
    assert 1 <= produced <= sent["request-rate"] * 1e9
    batches_sent = found.of(f"{TRAFFIC}totalproducerequests_total", topic=TOPIC)
    assert batches_sent == found.of(f"{REQUESTS}errors_total", request="Produce", error="NONE")
    assert found[f"{TRAFFIC}failedproducerequests_total"] == 0
    assert found["kafka_server_replicamanager_leadercount"] == PARTITIONS
    assert found["process_cpu_seconds_total"] > before["process_cpu_seconds_total"]
    assert found["process_open_fds"] > 10
    assert found["kavka_loop_lag_ms_count"] > before["kavka_loop_lag_ms_count"]
    closed = "kafka_server_socket_server_metrics_connection_close_total"
    eventually(
        lambda: scrape(port).of(closed, listener="PLAINTEXT", networkProcessor="0") >= 4,
        within_s=30,
        what="closed connections are counted",
    )


def test_every_metric_of_the_table_is_there(start_broker: StartBroker) -> None:
    port = free_port()
    broker = start_broker(**{"kavka.http.listener": f"{HOST}:{port}"})
    produce(broker)
    assert consume(broker) == RECORDS
    commit(broker)
    families = scrape(port).families
    kinds = {row.prometheus.removesuffix("_total"): row.kind.value for row in TABLE}
    for name, kind in kinds.items():
        if kind == "untyped":  # as its reader calls it
            kinds[name] = "unknown"
    assert {name: family.type for name, family in families.items()} == kinds


def test_health_over_a_broker_s_life(start_broker: StartBroker) -> None:
    port = free_port()
    broker = start_broker(**{"kavka.http.listener": f"{HOST}:{port}"})
    status, text = get(port, "/healthz")
    assert (status, json.loads(text)["status"]) == (200, "ok")
    broker.stop()
    try:
        get(port, "/healthz")
    except ConnectionRefusedError:
        return
    raise AssertionError("a stopped broker serves nothing")


def test_the_request_log_follows_its_level_while_the_broker_runs(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    produce(broker)
    assert "Completed request" not in broker.output()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    set_level(admin, "DEBUG")
    admin.list_topics()
    lines = eventually(
        lambda: re.findall(r"Completed request:(\{.*\})", broker.output()),
        within_s=30,
        what="requests are logged",
    )
    logged = [json.loads(line) for line in lines]
    assert {line["requestHeader"]["clientId"] for line in logged} == {admin.config["client_id"]}
    set_level(admin, "INFO")
    count = broker.output().count("Completed request")
    admin.list_topics()
    admin.close()
    assert broker.output().count("Completed request") == count


def set_level(admin: KafkaAdminClient, level: str) -> None:
    """Change the level of the request log, as kafka-configs does."""
    levels = {"kavka.request": level}
    admin.alter_configs([ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", configs=levels)])

"""Which topics `kavka mirror` copies, and how many replicas they get."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from kavka.cli import main
from kavka.testing import Broker, Cluster


@pytest.mark.parametrize(("options", "replicas"), [("--replication-factor 2", 2), ("", 3)])
def test_topics_are_chosen_and_have_replicas(options: str, replicas: int) -> None:
    with Broker() as source, Cluster(brokers=3) as target:
        for name in ("orders", "orders-test", "payments", "test"):
            source.create_topic(name, 1)
            source.produce(name, b"a record")
        at = f"--source {source.bootstrap_servers} --target {target.bootstrap_servers}"
        which = "--include orders.*|test --exclude .*-test|nothing --topic payments"
        line = f"mirror {at} {which} --no-groups --until-caught-up {options}"
        assert main(line.split()) == 0
        admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
        found = admin.list_topics(timeout=60).topics
        copied = ["orders", "payments", "test"]
        assert [name for name in target.topics() if name in source.topics()] == copied
        for name in copied:
            assert [len(partition.replicas) for partition in found[name].partitions.values()] == [
                replicas
            ]
            assert [record.value for record in target.read(name, 0, at_least=1)] == [b"a record"]

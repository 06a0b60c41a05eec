"""`kavka replica-verification` reads every replica on a real cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kavka.cli import main
from kavka.testing import Cluster

RECORDS = 20


@pytest.mark.parametrize("address", ["--bootstrap-server", "--broker-list"])
@pytest.mark.parametrize("fetch_size", [1, 1 << 20])
def test_all_replicas_are_compared(
    address: str, fetch_size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=verifier\nrequest.timeout.ms=20000\n")
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", 2)
        cluster.create_topic("other", 1)
        for number in range(RECORDS):
            cluster.produce("orders", b"%d" % number, partition=number % 2)
        cluster.wait_until_in_sync()
        line = f"{address} {cluster.bootstrap_servers} --topics-include orders --once"
        more = f"--fetch-size {fetch_size} --command-config {config} --output json"
        exit_code = main(["replica-verification", *line.split(), *more.split()])
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert exit_code == 0
    assert [event["event"] for event in events] == ["started", "report"]
    report = events[-1]
    assert (report["topic"], report["partitions"], report["maxLag"]) == ("orders", 2, 0)
    assert report["offset"] == RECORDS // 2

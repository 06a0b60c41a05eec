"""What Apache Kafka does not have. Read from a broker to which a known traffic was sent."""

from __future__ import annotations

from importlib import metadata as installed

import pytest

from support.memory_broker import MemoryBroker, scenario
from support.metrics import ON, look


@scenario(ON, "broker.id=7")
async def test_the_broker_and_its_loop(broker: MemoryBroker) -> None:
    began_ms = broker.clock.now_ms()
    await broker.advance(950)
    found = await look(broker)
    cluster = broker.parts.metadata.image.cluster_id
    version = installed.version("kavka")
    assert found.of("kavka_info", version=version, cluster_id=cluster, broker_id="7") == 1
    assert found["kafka_server_kafkaserver_brokerstate"] == 3
    assert found.of("kafka_server_app_info_starttimems", id="7") == began_ms
    assert found["kavka_loop_lag_ms_count"] == 3
    assert found["kavka_loop_lag_max_ms"] == pytest.approx(0, abs=1e-6)
    broker.clock.elapsed_ms += 200
    await broker.advance(0)
    found = await look(broker)
    assert found["kavka_loop_lag_max_ms"] == pytest.approx(150, abs=1), "950 + 200 - 1000"
    assert found["kavka_loop_lag_last_ms"] == found["kavka_loop_lag_max_ms"]
    assert "process_cpu_seconds" not in found.families, "there is no process"

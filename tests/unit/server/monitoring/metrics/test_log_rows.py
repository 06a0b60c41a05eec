"""Logs and their directories. Read from a broker to which a known traffic was sent."""

from __future__ import annotations

from kavka.compat_tests.raw.codec import batches
from kavka.log.memfs import Fault
from support.memory_broker import MemoryBroker, scenario
from support.metrics import ON, look, records

REPLICAS = "kafka_server_replicamanager_"


@scenario(ON, "log.flush.interval.messages=1", "log.segment.bytes=1048576", topics={"t": 1, "u": 1})
async def test_logs(broker: MemoryBroker) -> None:
    sent = [batches.build([batches.Written(None, bytes(600_000))]) for _ in range(3)]
    for batch in sent:
        assert (await broker.produce(batch[:])).error_code == 0
    found = await look(broker)
    for name, number in (
        ("size", sum(map(len, sent))),
        ("numlogsegments", 3),
        ("logstartoffset", 0),
        ("logendoffset", 3),
    ):
        assert found.of(f"kafka_log_log_{name}", topic="t", partition="0") == number, name
    assert found["kafka_log_logflushstats_logflushrateandtimems_count"] >= 3
    assert found["kafka_log_logmanager_offlinelogdirectorycount"] == 0
    assert found.all("kafka_log_logmanager_logdirectoryoffline") == {("/data",): 0}


@scenario(ON, "log.dirs=/data,/more", topics={"t": 1, "u": 1})
async def test_a_failed_log(broker: MemoryBroker) -> None:
    broker.fs.faults.append(Fault("pwrite", "t-0/00000000000000000000.log"))
    await broker.produce(records(1))
    found = await look(broker)
    assert found["kafka_log_logmanager_offlinelogdirectorycount"] == 1
    assert found.all("kafka_log_logmanager_logdirectoryoffline") == {
        ("/data",): 1,
        ("/more",): 0,
    }
    assert found[f"{REPLICAS}offlinereplicacount"] == 1
    assert found.all("kafka_log_log_size") == {("0", "u"): 0}

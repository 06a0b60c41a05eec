"""Metrics of compaction, read from a broker whose logs were compacted."""

from __future__ import annotations

from kavka.compat_tests.raw.codec.batches import Written, build
from support.memory_broker import MemoryBroker, scenario
from support.metrics import ON, look

CLEANER = "kafka_log_logcleaner_"
MANAGER = "kafka_log_logcleanermanager_"
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}


async def fill(broker: MemoryBroker, count: int) -> None:
    for number in range(count):
        batch = build([Written(b"%d" % (number % 5), b"value")])
        assert (await broker.produce(batch)).error_code == 0


@scenario(ON, "log.cleaner.backoff.ms=1000", "log.dirs=/data,/more")
async def test_what_was_compacted(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT | {"max.compaction.lag.ms": "500"})
    found = await look(broker)
    assert found[f"{CLEANER}cleaner_recopy_percent"] == 0
    assert found[f"{MANAGER}max_dirty_percent"] == 0
    await fill(broker, 70)
    await broker.advance(1000)
    await broker.advance(300)
    found = await look(broker)
    assert 0 < found[f"{CLEANER}cleaner_recopy_percent"] < 50
    assert 0 < found[f"{CLEANER}max_buffer_utilization_percent"] < 100
    assert found[f"{CLEANER}max_clean_time_secs"] >= 0
    assert found[f"{CLEANER}max_compaction_delay_secs"] == 0.5
    assert found[f"{MANAGER}max_dirty_percent"] == 0, "now nothing is"
    assert 300 <= found[f"{MANAGER}time_since_last_run_ms"] <= 1300
    for name in ("uncleanable_partitions_count", "uncleanable_bytes"):
        assert found.all(MANAGER + name) == {("/data",): 0, ("/more",): 0}
    assert found[f"{CLEANER}deadthreadcount"] == 0


@scenario(ON, "log.cleaner.backoff.ms=1000", "log.dirs=/data,/more")
async def test_what_can_t_be_compacted(broker: MemoryBroker) -> None:
    await broker.create("t", configs=COMPACT)
    await fill(broker, 70)
    path = f"{broker.replica().log.directory}/{0:020d}.log"
    broker.fs.open(path).pwrite(b"\xff", 70)
    await broker.advance(1000)
    found = await look(broker)
    parent = path.rpartition("/t-0")[0]
    counts = found.all(f"{MANAGER}uncleanable_partitions_count")
    assert counts == {("/data",): parent == "/data", ("/more",): parent == "/more"}
    names = broker.fs.list_dir(broker.replica().log.directory)
    closed = sorted(name for name in names if name.endswith(".log"))[:-1]
    size = sum(broker.fs.size(f"{broker.replica().log.directory}/{name}") for name in closed)
    sizes = found.all(f"{MANAGER}uncleanable_bytes")
    assert sizes == {("/data",): size * counts["/data",], ("/more",): size * counts["/more",]}
    broker.parts.replicas.cleaning.dead[0] = None
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    found = await look(broker)
    for name in ("uncleanable_partitions_count", "uncleanable_bytes"):
        assert not any(found.all(MANAGER + name).values())
    assert found[f"{CLEANER}deadthreadcount"] == 1

"""Several log directories, one of which fails: what clients and operators get to see of it."""

from __future__ import annotations

import errno
from typing import Any
from unittest.mock import Mock

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from kavka.server.monitoring.health import Health
from kavka.server.replica.replica import Replica
from kavka.server.start_checks import StartError
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

TWO = "log.dirs=/data,/more"
"""The first has the metadata too. Partitions with even numbers get there, the others to /more."""

FIRST_SEGMENT = "00000000000000000000.log"


async def partitions(broker: MemoryBroker) -> dict[int, Any]:
    """The topic's partitions as clients see them."""
    (topic,) = (await broker.ask("Metadata", 9, topics=[{"name": "t"}])).topics
    return {partition.partition_index: partition for partition in topic.partitions}


async def directories(broker: MemoryBroker) -> dict[str, tuple[int, list[int]]]:
    """Error code and partitions of each log directory."""
    answer = await broker.ask("DescribeLogDirs", 4, topics=None)
    return {
        found.log_dir: (
            found.error_code,
            [partition.partition_index for topic in found.topics for partition in topic.partitions],
        )
        for found in answer.results
    }


async def break_more(broker: MemoryBroker, error: int = errno.EIO) -> None:
    """Have a write in /more fail."""
    broker.fs.faults.append(Fault("pwrite", f"/more/t-1/{FIRST_SEGMENT}", error=error))
    assert (await broker.produce(build(), partition=1)).error_code == Code.KAFKA_STORAGE_ERROR
    await broker.advance(10)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS])
@scenario(TWO, topics={"t": 4})
async def test_a_write_that_fails_takes_its_directory_offline(
    broker: MemoryBroker, error: int
) -> None:
    for index in range(4):
        assert (await broker.produce(build(), partition=index)).error_code == Code.NONE
    assert await directories(broker) == {"/data": (0, [0, 2]), "/more": (0, [1, 3])}
    await break_more(broker, error)
    for index in range(4):
        code = Code.KAFKA_STORAGE_ERROR if index % 2 else Code.NONE
        assert (await broker.produce(build(), partition=index)).error_code == code
    known = await partitions(broker)
    assert {index: partition.leader_id for index, partition in known.items()} == {
        0: 1,
        1: -1,
        2: 1,
        3: -1,
    }
    assert known[3].error_code == Code.LEADER_NOT_AVAILABLE
    assert (known[3].offline_replicas, known[2].offline_replicas) == ([1], [])
    assert await directories(broker) == {
        "/data": (0, [0, 2]),
        "/more": (Code.KAFKA_STORAGE_ERROR, []),
    }
    health: Health = broker.instance.health()
    assert health.is_ready and not health.is_healthy
    assert [problem.partition(":")[0] for problem in health.problems] == [
        "the log directory /more failed"
    ]
    assert broker.failed == 0


@scenario(TWO, topics={"t": 4})
async def test_topics_go_where_a_directory_is_left(broker: MemoryBroker) -> None:
    await break_more(broker)
    await broker.create("u", 3)
    for index in range(3):
        assert (await broker.produce(build(), "u", index)).error_code == Code.NONE
    assert (await directories(broker))["/data"] == (0, [0, 2, 0, 1, 2])


@scenario(TWO, topics={"t": 4})
async def test_the_directory_is_well_again_after_a_restart(broker: MemoryBroker) -> None:
    for index in range(4):
        await broker.produce(build(), partition=index)
    await break_more(broker)
    broker.fs.faults.clear()
    await broker.restart()
    assert {partition.leader_id for partition in (await partitions(broker)).values()} == {1}
    for index in range(4):
        answer = await broker.produce(build(), partition=index)
        assert (answer.error_code, answer.base_offset) == (Code.NONE, 3)


@scenario(TWO, topics={"t": 4})
async def test_a_restart_with_a_directory_that_can_not_be_used(broker: MemoryBroker) -> None:
    for index in range(4):
        await broker.produce(build(), partition=index)
    await broker.die()
    broker.fs.faults.append(Fault("lock", "/more/.lock", error=errno.EROFS))
    await broker.revive()
    known = await partitions(broker)
    assert {index: partition.leader_id for index, partition in known.items()} == {
        0: 1,
        1: -1,
        2: 1,
        3: -1,
    }
    assert [known[index].offline_replicas for index in range(4)] == [[], [1], [], [1]]
    for index in range(4):
        answer = await broker.produce(build(), partition=index)
        if index % 2:
            assert answer.error_code == Code.KAFKA_STORAGE_ERROR
        else:
            assert (answer.error_code, answer.base_offset) == (Code.NONE, 3)
    assert (await directories(broker))["/more"] == (Code.KAFKA_STORAGE_ERROR, [])
    assert broker.parts.replicas.missing_count == 2
    await broker.restart()
    for index in (1, 3):
        answer = await broker.produce(build(), partition=index)
        assert (answer.error_code, answer.base_offset) == (Code.NONE, 3)


@scenario(TWO, topics={"t": 4})
async def test_a_topic_with_replicas_offline_stays_until_they_are_back(
    broker: MemoryBroker,
) -> None:
    await break_more(broker)
    broker.client.send("DeleteTopics", 4, topic_names=["t"], timeout_ms=1000)
    await broker.advance(2000)
    broker.fs.faults.clear()
    await broker.restart()
    request = {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}
    (topic,) = (await broker.ask("Metadata", 9, **request)).topics
    assert topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await directories(broker) == {"/data": (0, []), "/more": (0, [])}


@scenario(TWO, topics={"t": 2})
async def test_without_any_directory_the_broker_gives_up(broker: MemoryBroker) -> None:
    await break_more(broker)
    assert broker.failed == 0
    broker.fs.faults.append(Fault("pwrite", f"/data/t-0/{FIRST_SEGMENT}"))
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
    assert broker.failed == 1
    assert "all log directories have failed" in broker.instance.health().problems


@scenario(TWO)
async def test_where_the_metadata_can_not_be_used_nothing_starts(broker: MemoryBroker) -> None:
    await broker.stop()
    fs: MemFs = broker.fs
    fs.faults.append(Fault("lock", "/data/.lock"))
    starting = MemoryBroker(TWO, fs=fs)
    with pytest.raises(Exception, match="/data, the first in log.dirs, holds the cluster's"):
        await starting.instance.start()
    await starting.instance.stop()
    fs.faults += [Fault("lock", "/data/.lock"), Fault("lock", "/more/.lock")]
    starting = MemoryBroker(TWO, fs=fs)
    with pytest.raises(StorageError, match="none of the log directories can be used"):
        await starting.instance.start()
    await starting.instance.stop()
    await broker.revive()


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "a mount point"])
@scenario(TWO)
async def test_where_the_metadata_s_disk_is_not_mounted_nothing_is_written(
    broker: MemoryBroker, is_there: bool
) -> None:
    await broker.stop()
    fs: MemFs = broker.fs
    fs.rename("/data", "/mounted elsewhere")
    if is_there:
        fs.make_dir("/data")
    starting = MemoryBroker(TWO, fs=fs)
    with pytest.raises(StartError, match="/data, the first in log.dirs, has neither .* mounted"):
        await starting.instance.start()
    await starting.instance.stop()
    assert fs.exists("/data") is is_there
    assert not is_there or fs.list_dir("/data") == []
    if is_there:
        fs.remove_tree("/data")
    fs.rename("/mounted elsewhere", "/data")
    await broker.revive()


@scenario("log.dirs=/data")
async def test_nothing_is_written_where_another_cluster_s_logs_are(broker: MemoryBroker) -> None:
    await broker.stop()
    fs: MemFs = broker.fs
    for name in ("coordination.log", "coordination.snapshot"):
        if fs.exists(f"/data/{name}"):
            fs.remove(f"/data/{name}")
    before = {name: fs.read_bytes(f"/data/{name}") for name in fs.list_dir("/data")}
    starting = MemoryBroker("log.dirs=/data", fs=fs)
    with pytest.raises(StartError, match="has no metadata of its topics"):
        await starting.instance.start()
    await starting.instance.stop()
    assert {name: fs.read_bytes(f"/data/{name}") for name in fs.list_dir("/data")} == before


@scenario(TWO, topics={"t": 2})
async def test_nothing_is_left_of_the_report(broker: MemoryBroker) -> None:
    """The controller forgets it; the next failure makes another."""
    await break_more(broker)
    coordination = broker.parts.coordination
    assert coordination is not None
    assert await coordination.children("/log_dir_event_notification") == []


@scenario(TWO)
async def test_a_log_is_not_made_twice_where_the_first_can_not_be_removed(
    broker: MemoryBroker,
) -> None:
    broker.fs.faults += [
        Fault("create", "/more/t-1/partition.metadata", error=errno.EROFS),
        Fault("remove", FIRST_SEGMENT, error=errno.EROFS, times=99),
    ]
    await broker.create("t", 2)
    assert (await broker.produce(build(), partition=0)).error_code == Code.NONE
    assert (await broker.produce(build(), partition=1)).error_code == Code.KAFKA_STORAGE_ERROR
    broker.fs.faults.clear()
    await broker.restart()
    assert await directories(broker) == {"/data": (0, [0]), "/more": (0, [1])}
    for index in range(2):
        assert (await broker.produce(build(), partition=index)).error_code == Code.NONE


@scenario(TWO, topics={"t": 4})
async def test_a_topic_id_that_can_not_be_written_takes_its_directory_offline(
    broker: MemoryBroker,
) -> None:
    await broker.stop()
    broker.fs.remove("/more/t-1/partition.metadata")
    broker.fs.faults.append(Fault("create", "/more/t-1/partition.metadata.tmp"))
    await broker.revive()
    for index in range(4):
        code = Code.KAFKA_STORAGE_ERROR if index % 2 else Code.NONE
        assert (await broker.produce(build(), partition=index)).error_code == code
    assert (await directories(broker))["/more"] == (Code.KAFKA_STORAGE_ERROR, [])


@scenario(TWO, topics={"t": 4})
async def test_an_empty_log_in_the_place_of_a_lost_one_is_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The directory itself is there: a power cut may have taken a log that was just made."""
    assert "none of the log directories has its log" not in caplog.text
    await broker.stop()
    for name in ("t-1", "t-3"):
        broker.fs.remove_tree(f"/more/{name}")
    await broker.revive()
    notified = [record.getMessage() for record in caplog.records if "has its log" in record.msg]
    assert [line.partition(" ")[0] for line in notified] == ["t-1", "t-3"]


@scenario(TWO, topics={"t": 2})
async def test_too_many_open_files_say_nothing_of_the_disk(broker: MemoryBroker) -> None:
    assert (await broker.produce(build(), partition=1)).error_code == Code.NONE
    short = Fault("pwrite", f"/more/t-1/{FIRST_SEGMENT}", error=errno.EMFILE, times=99)
    broker.fs.faults.append(short)
    for _ in range(3):
        code = (await broker.produce(build(), partition=1)).error_code
        assert code == Code.KAFKA_STORAGE_ERROR
    short.times = 0
    broker.fs.faults.append(Fault("pread", f"/more/t-1/{FIRST_SEGMENT}", error=errno.EMFILE))
    assert (await broker.fetch(partition=1)).error_code == Code.KAFKA_STORAGE_ERROR
    answer = await broker.produce(build(), partition=1)
    assert (answer.error_code, answer.base_offset) == (Code.NONE, 3)
    assert len(await broker.read_all(partition=1)) == 6
    assert broker.instance.health().is_healthy


# -- a log that is damaged ----------------------------------------------------------------------


@scenario(topics={"t": 2})
async def test_a_log_that_can_not_be_flushed_goes_offline_alone(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its segment is damaged, and a flush comes upon it."""
    for index in range(2):
        assert (await broker.produce(build(), partition=index)).error_code == Code.NONE
    log = broker.replica().log
    path = f"{log.directory}/{FIRST_SEGMENT}"
    broker.fs.open(path).pwrite(bytes(30), 0)
    damage = CorruptLogError(path, 0, "its magic would be 0")
    monkeypatch.setattr(PartitionLog, "flush_plan", Mock(side_effect=damage))
    notified: list[Replica] = []
    broker.parts.replicas.role_listeners["t"] = notified.append
    broker.parts.replicas.flusher.flush_soon(broker.replica())
    await broker.parts.replicas.flusher.wait_idle()
    monkeypatch.undo()
    await broker.advance(10)
    assert "can't flush t-0: KAFKA_STORAGE_ERROR" in caplog.text
    assert notified[:1] == [broker.replica()], "who keeps something in it has lost it"
    known = await partitions(broker)
    assert {index: partition.leader_id for index, partition in known.items()} == {0: -1, 1: 1}
    assert known[0].offline_replicas == [1]
    codes = [(await broker.produce(build(), partition=index)).error_code for index in range(2)]
    assert codes == [Code.KAFKA_STORAGE_ERROR, Code.NONE]
    assert (await directories(broker))["/data"][0] == 0 and broker.failed == 0
    await broker.stop()
    assert not broker.fs.exists("/data/.kafka_cleanshutdown")
    await broker.revive()
    for index, offset in ((0, 0), (1, 6)):
        answer = await broker.produce(build(), partition=index)
        assert (answer.error_code, answer.base_offset) == (Code.NONE, offset), "it is cut"

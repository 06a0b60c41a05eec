"""A broker's life: starts, stops, deaths, and what is there afterwards."""

from __future__ import annotations

import errno
import random
import struct

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.errors import StorageError
from kavka.log.memfs import Fault
from kavka.server.coordination.embedded import open_embedded
from kavka.server.start_checks import StartError
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import read_header
from kavka.zktree import paths
from kavka.zktree.api import CoordinationError
from support.memory_broker import DATA, MemoryBroker, fetching, producing, scenario
from support.memory_network import MemoryNetwork, until
from support.virtual import DeferredJobs, VirtualClock, VirtualTasks, run_until_idle

CLEAN = f"{DATA}/.kafka_cleanshutdown"


def files(broker: MemoryBroker, directory: str = DATA) -> dict[str, bytes]:
    """The files of a directory itself."""
    found = {}
    for name in broker.fs.list_dir(directory):
        if not broker.fs.is_dir(f"{directory}/{name}"):
            found[name] = broker.fs.read_bytes(f"{directory}/{name}")
    return found


async def values(broker: MemoryBroker, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in await broker.read_all(topic, partition)]


def batch_of(value: bytes) -> bytearray:
    return build([Written(value=value)])


# -- starting -------------------------------------------------------------------------------


@scenario(
    "broker.id=5",
    "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
)
async def test_a_start_serves_on_every_listener(broker: MemoryBroker) -> None:
    assert broker.network.ports == [port for _, port in broker.instance.addresses.values()]
    for listener in broker.instance.addresses:
        answer = await broker.connect(listener).ask("Metadata", 9, topics=[])
        assert [known.node_id for known in answer.brokers] == [5]


@scenario("advertised.listeners=PLAINTEXT://:9092", "listeners=PLAINTEXT://:9092")
async def test_a_listener_without_a_host_is_advertised_with_the_host_name(
    broker: MemoryBroker,
) -> None:
    assert broker.instance.addresses == {"PLAINTEXT": ("broker.test", 9092)}


@scenario("log.dirs=/a,/b", start=False)
async def test_logs_are_spread_over_the_directories(broker: MemoryBroker) -> None:
    await broker.start()
    await broker.create("t", 4)
    logs = {
        path: [name for name in broker.fs.list_dir(path) if name[:2] == "t-"]
        for path in ("/a", "/b")
    }
    assert [len(names) for names in logs.values()] == [2, 2]
    assert all(broker.fs.exists(f"{path}/meta.properties") for path in logs)
    await broker.produce(batch_of(b"1"), partition=3)
    await broker.kill()
    assert await values(broker, partition=3) == [b"1"]
    await broker.stop()


@scenario()
async def test_one_broker_a_directory(broker: MemoryBroker) -> None:
    second = MemoryBroker(fs=broker.fs)
    with pytest.raises(StorageError, match=DATA):
        await second.start()
    await second.instance.stop()
    assert CLEAN not in [f"{DATA}/{name}" for name in files(broker)]
    await broker.create("t")
    assert (await broker.produce(batch_of(b"1"))).error_code == Code.NONE, "the first goes on"


@scenario(topics={"t": 1})
async def test_a_directory_of_another_broker_is_left_alone(broker: MemoryBroker) -> None:
    """Above all it is not marked as closed in order: its own broker may have died."""
    await broker.produce(batch_of(b"1"))
    await broker.die()
    before = files(broker)
    stranger = MemoryBroker("broker.id=7", fs=broker.fs)
    with pytest.raises(StartError, match="belongs to broker 1"):
        await stranger.start()
    await stranger.instance.stop()
    before.pop("coordination.log")
    after = files(broker)
    after.pop("coordination.log")
    assert after == before
    await broker.revive()
    assert await values(broker) == [b"1"]


@scenario(topics={"t": 1})
async def test_logs_of_unknown_topics_are_not_served(broker: MemoryBroker) -> None:
    await broker.restart()
    await broker.die()
    broker.fs.remove(f"{DATA}/coordination.log")
    for _ in range(2):
        with pytest.raises(StartError, match="kavka storage import"):
            await broker.revive()
        await broker.instance.stop()


@scenario(topics={"t": 1, "u": 1})
async def test_logs_that_cannot_be_loaded_are_left_as_they_are(broker: MemoryBroker) -> None:
    await broker.produce(batch_of(b"1"))
    await broker.produce(batch_of(b"2"), "u")
    await broker.restart()
    await broker.die()
    before = files(broker)
    broker.fs.faults.append(Fault("open", "u-0/00000000000000000000.log"))
    with pytest.raises((OSError, StorageError)):
        await broker.revive()
    await broker.instance.stop()
    after = files(broker)
    assert CLEAN.rpartition("/")[2] not in after
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert after[checkpoint] == before[checkpoint]
    broker.fs.faults.clear()
    await broker.revive()
    assert await values(broker) + await values(broker, "u") == [b"1", b"2"]


@scenario(topics={"t": 1})
async def test_damaged_metadata(broker: MemoryBroker) -> None:
    await broker.produce(batch_of(b"1"))
    await broker.die()
    path = f"{DATA}/coordination.log"
    whole = broker.fs.read_bytes(path)
    broker.fs.write_atomic(path, b"garbage" + whole, sync=True)
    with pytest.raises(StartError, match="coordination.log"):
        await broker.revive()
    await broker.instance.stop()
    assert not broker.fs.exists(CLEAN)
    broker.fs.kill()
    broker.fs.write_atomic(path, whole, sync=True)
    await broker.revive()
    assert await values(broker) == [b"1"]


@scenario()
async def test_a_broker_that_is_registered_already_does_not_start(broker: MemoryBroker) -> None:
    """As after SIGKILL with ZooKeeper, until the session of the killed process has expired."""
    path = paths.broker(broker.settings.broker_id)
    await broker.die()
    clock, jobs = VirtualClock(), DeferredJobs()
    other = await open_embedded(broker.fs, DATA, clock=clock, tasks=VirtualTasks(clock), jobs=jobs)
    await other.create(path, b"{}")
    await other.close()
    with pytest.raises(StartError, match="is registered already.*another broker.id"):
        await broker.revive()
    await broker.instance.stop()
    await broker.tasks.die()
    broker.fs.kill()
    session = await open_embedded(
        broker.fs, DATA, clock=clock, tasks=VirtualTasks(clock), jobs=jobs
    )
    await session.delete(path)
    await session.close()
    await broker.revive()


@pytest.mark.parametrize("iterations", range(1, 60, 7))
@scenario(topics={"t": 1})
async def test_sigkill_at_any_iteration_of_a_start(broker: MemoryBroker, iterations: int) -> None:
    await broker.produce(batch_of(b"1"))
    await broker.die()
    starting = MemoryBroker(fs=broker.fs)
    starting.tasks.spawn(starting.instance.start(), name="start")
    await run_until_idle(iterations)
    await starting.die()
    await broker.revive()
    assert await values(broker) == [b"1"]
    assert (await broker.produce(batch_of(b"2"))).base_offset == 1


@pytest.mark.parametrize("op", ["create", "rename", "pwrite", "sync", "sync_dir"])
@pytest.mark.parametrize("skip", range(4))
@scenario()
async def test_a_disk_that_fails_at_the_start(broker: MemoryBroker, op: str, skip: int) -> None:
    """It starts or says why not, can be stopped, and has lost nothing when the disk is well."""
    await broker.create("t", configs={"flush.messages": "1"})
    await broker.produce(batch_of(b"1"))
    await broker.die()
    starting = MemoryBroker(fs=broker.fs)
    broker.fs.faults.append(Fault(op, error=errno.ENOSPC, skip=skip))
    begun = starting.tasks.spawn(starting.instance.start(), name="start")
    await until(begun.done, "the start ends")
    if begun.exception() is not None:
        assert isinstance(begun.exception(), OSError | CoordinationError | StorageError)
    broker.fs.faults.clear()
    await starting.instance.stop()
    await starting.tasks.die()
    broker.fs.kill()
    await broker.revive()
    assert await values(broker) == [b"1"]


@scenario(topics={"t": 1})
async def test_a_port_that_is_taken(broker: MemoryBroker) -> None:
    await broker.produce(batch_of(b"1"))
    await broker.die()
    taken = MemoryNetwork({9092: errno.EADDRINUSE})
    second = MemoryBroker("listeners=PLAINTEXT://127.0.0.1:9092", fs=broker.fs, network=taken)
    with pytest.raises(StartError, match="127.0.0.1:9092.*choose another"):
        await second.start()
    await second.instance.stop()
    assert broker.fs.exists(CLEAN), "the logs were recovered, and closed in order"
    await broker.revive()
    assert await values(broker) == [b"1"]


@scenario(start=False)
async def test_a_stop_without_a_start(broker: MemoryBroker) -> None:
    await broker.instance.stop()
    assert broker.fs.list_dir("/") == []


# -- stopping -------------------------------------------------------------------------------


@scenario(topics={"t": 2})
async def test_a_stop_leaves_everything_flushed_and_marked(broker: MemoryBroker) -> None:
    await broker.produce(batch_of(b"1"), partition=1)
    await broker.stop()
    assert broker.fs.exists(CLEAN)
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        lines = broker.fs.read_bytes(f"{DATA}/{checkpoint}").decode().splitlines()
        assert lines == ["0", "2", "t 0 0", "t 1 1"], "version, entries: topic partition offset"
    broker.fs.crash()
    await broker.revive()
    assert not broker.fs.exists(CLEAN), "from the start on it would be a lie"
    assert await values(broker, partition=1) == [b"1"], "even a power cut takes nothing"


@scenario(topics={"t": 1})
async def test_a_stop_accepts_no_connection_and_closes_the_others(broker: MemoryBroker) -> None:
    waiting = broker.client.send("Fetch", 12, **fetching({("t", 0): 0}, max_wait_ms=60_000))
    await run_until_idle()
    port = broker.instance.addresses["PLAINTEXT"][1]
    await broker.stop()
    assert broker.client.is_closed
    assert waiting.exception() is not None
    with pytest.raises(ConnectionRefusedError):
        broker.network.client(port)
    await broker.revive()


@pytest.mark.parametrize("way", ["stop", "end_abruptly"])
@scenario("max.connections.per.ip=2", topics={"t": 1})
async def test_no_timer_outlives_a_broker(broker: MemoryBroker, way: str) -> None:
    """Its loop may: it is a test's, for one."""
    refused = await broker.ask("Produce", 9, **producing({("t", 0): batch_of(b"1")[:-1] + b"?"}))
    assert refused.responses[0].partition_responses[0].error_code == Code.CORRUPT_MESSAGE
    broker.connect().send_bytes(struct.pack(">i", -1))
    for _ in range(3):
        broker.connect()
    await run_until_idle()
    assert broker.tasks.pending_timers
    await getattr(broker, way)()
    assert not broker.tasks.pending_timers
    await broker.revive()


@scenario()
async def test_a_stop_waits_for_the_flush_under_way(broker: MemoryBroker) -> None:
    await broker.create("t", configs={"flush.messages": "1"})
    broker.jobs.hold("FlushPlan.run")
    broker.client.send("Produce", 9, **producing({("t", 0): batch_of(b"1")}))
    await run_until_idle()
    assert broker.jobs.held == ["FlushPlan.run"]
    stopping = broker.tasks.spawn(broker.instance.stop(), name="stop")
    await run_until_idle(100)
    assert not stopping.done()
    assert "DirectoryClosing.sync" not in broker.jobs.done, "one thread at a time has the logs"
    broker.jobs.release()
    await stopping
    assert broker.jobs.done[-1] == "LogManager.close_directories"
    await broker.revive()
    assert await values(broker) == [b"1"]


@pytest.mark.parametrize(
    "configs",
    [
        {"compression.type": "zstd"},
        {"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"},
        {"cleanup.policy": "compact", "compression.type": "zstd"},
    ],
)
@scenario()
async def test_a_request_under_way_writes_nothing_after_a_stop(
    broker: MemoryBroker, configs: dict[str, str]
) -> None:
    """The files are marked as cleanly closed by then, and may be another process's already."""
    await broker.create("t", configs=configs)
    await broker.produce(build([Written(b"k", b"1")]))
    broker.jobs.hold("c")
    values = producing({("t", 0): build([Written(b"k", b"2" * 100_000)])})
    answer = broker.client.send("Produce", 9, **values)
    await run_until_idle()
    assert broker.jobs.held
    replica = broker.replica()
    await broker.instance.stop()
    closed = files(broker, f"{DATA}/t-0")
    broker.jobs.release()
    await run_until_idle()
    assert answer.exception() is not None
    assert files(broker, f"{DATA}/t-0") == closed
    view = memoryview(build([Written(b"k", b"3")]))
    with pytest.raises(ApiError) as refused:
        replica.append(view, read_header(view))
    assert refused.value.code == Code.NOT_LEADER_OR_FOLLOWER
    assert files(broker, f"{DATA}/t-0") == closed, "nor does the log itself write any more"
    await broker.revive()
    assert [record.value for record in await broker.read_all("t")] == [b"1"]


@scenario(topics={"t": 1})
async def test_a_log_that_cannot_be_closed_is_recovered_the_next_time(
    broker: MemoryBroker,
) -> None:
    await broker.produce(batch_of(b"1"))
    broker.fs.faults.append(Fault("sync", "t-0/00000000000000000000.log"))
    await broker.stop()
    assert not broker.fs.exists(CLEAN)
    broker.fs.kill()
    await broker.revive()
    assert await values(broker) == [b"1"]


@scenario(topics={"t": 1})
async def test_metadata_that_cannot_be_written_end_the_broker(broker: MemoryBroker) -> None:
    broker.fs.faults.append(Fault("sync", "coordination.log"))
    broker.client.send("CreateTopics", 7, timeout_ms=1000, topics=[])
    response = broker.client.send("InitProducerId", 4, transactional_id=None, producer_id=-1)
    await run_until_idle(100)
    assert broker.instance.has_failed
    assert broker.failed == 1, "on_failure is called once"
    assert response.result().error_code != Code.NONE
    broker.fs.faults.clear()
    await broker.instance.stop()
    await broker.tasks.die()
    broker.tasks.failures.clear()
    broker.fs.kill()
    await broker.revive()
    assert (await broker.produce(batch_of(b"1"))).error_code == Code.NONE


# -- dying ----------------------------------------------------------------------------------


@scenario(topics={"t": 2})
async def test_a_killed_broker_has_lost_nothing(broker: MemoryBroker) -> None:
    expected: dict[int, list[bytes]] = {0: [], 1: []}
    for number in range(200):
        value = b"%d" % number
        answer = await broker.produce(batch_of(value), partition=number % 2)
        assert answer.base_offset == number // 2
        expected[number % 2].append(value)
        if number % 70 == 69:
            await broker.kill()
    for partition, written in expected.items():
        assert await values(broker, partition=partition) == written
        end = await broker.list_offset(-1, partition=partition)
        assert end.offset == len(written), "the high watermark is where it was"


@scenario()
async def test_sigkill_at_any_iteration_of_a_creation(broker: MemoryBroker) -> None:
    """The topic is there with all its partitions, or not at all."""
    for iterations in range(0, 60, 4):
        name = f"t{iterations}"
        topic = {"name": name, "num_partitions": 3, "replication_factor": 1}
        broker.client.send("CreateTopics", 7, timeout_ms=1000, topics=[topic])
        await run_until_idle(iterations)
        await broker.kill()
        request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        (found,) = (await broker.ask("Metadata", 9, **request)).topics
        assert (found.error_code, len(found.partitions)) in (
            (Code.NONE, 3),
            (Code.UNKNOWN_TOPIC_OR_PARTITION, 0),
        )
        if found.error_code == Code.NONE:
            assert (await broker.produce(batch_of(b"1"), name, 2)).error_code == Code.NONE


def all_files(broker: MemoryBroker, directory: str = DATA) -> dict[str, bytes]:
    """The files of a directory and those below it, by path."""
    found: dict[str, bytes] = {}
    for name in broker.fs.list_dir(directory):
        path = f"{directory}/{name}"
        if broker.fs.is_dir(path):
            found |= all_files(broker, path)
        else:
            found[path] = broker.fs.read_bytes(path)
    return found


@scenario(topics={"t": 2})
async def test_an_abrupt_end_writes_nothing_and_releases_everything(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.produce(batch_of(b"1"))
    waiting = broker.client.send("Fetch", 12, **fetching({("t", 0): 1}, max_wait_ms=60_000))
    await run_until_idle()
    before = all_files(broker)
    await broker.end_abruptly()
    assert all_files(broker) == before
    assert CLEAN not in before
    await broker.client.closed()
    assert waiting.exception() is not None, "no request is answered any more"
    assert not broker.network.ports
    caplog.set_level("INFO")
    await broker.revive()  # on the same file system: its lock is free
    assert "recovering 2 logs in /data after an unclean shutdown" in caplog.text
    assert await values(broker) == [b"1"]


@scenario(topics={"t": 1})
async def test_an_abrupt_end_loses_nothing_and_doubles_nothing(broker: MemoryBroker) -> None:
    producer = await broker.ask("InitProducerId", 4, transactional_id=None)
    ids = (producer.producer_id, producer.producer_epoch)

    def numbered(number: int) -> bytearray:
        return build([Written(value=b"%d" % number)], producer=(*ids, number))

    for number in range(30):
        answer = await broker.produce(numbered(number))
        assert (answer.error_code, answer.base_offset) == (Code.NONE, number)
        if number % 10 == 7:
            await broker.end_abruptly()
            await broker.revive()
            again = await broker.produce(numbered(number))
            assert (again.error_code, again.base_offset) == (Code.NONE, number)
    assert await values(broker) == [b"%d" % number for number in range(30)]


@scenario()
async def test_an_abrupt_end_at_any_iteration_of_a_creation(broker: MemoryBroker) -> None:
    for iterations in range(0, 60, 4):
        name = f"t{iterations}"
        topic = {"name": name, "num_partitions": 3, "replication_factor": 1}
        broker.client.send("CreateTopics", 7, timeout_ms=1000, topics=[topic])
        await run_until_idle(iterations)
        before = all_files(broker)
        await broker.end_abruptly()
        assert all_files(broker) == before
        await broker.revive()
        request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        (found,) = (await broker.ask("Metadata", 9, **request)).topics
        assert (found.error_code, len(found.partitions)) in (
            (Code.NONE, 3),
            (Code.UNKNOWN_TOPIC_OR_PARTITION, 0),
        )


@scenario()
async def test_a_connection_at_the_end_is_closed(broker: MemoryBroker) -> None:
    late = broker.connect()
    broker.instance.kill()
    await late.closed()
    await broker.tasks.die()
    broker.instance.release()
    await broker.revive()


async def end_somehow(broker: MemoryBroker, chance: random.Random) -> bool:
    """One of the ways to end, and a start; whether the power was cut."""
    way = chance.choice(["stop", "kill", "abrupt end", "power cut", "torn power cut"])
    if way == "stop":
        await broker.restart()
    elif way == "kill":
        await broker.kill()
    elif way == "abrupt end":
        await broker.end_abruptly()
        await broker.revive()
    else:  # the torn one leaves some of what was not flushed, whole or in part
        await broker.crash(chance if way.startswith("torn") else None)
    return way.endswith("power cut")


@pytest.mark.parametrize("seed", range(8))
@scenario("num.partitions=2", "auto.create.topics.enable=true")
async def test_a_long_life(broker: MemoryBroker, seed: int) -> None:
    """Topics come and go, records are written, and the broker ends in every way. All that was
    acknowledged is there; a power cut may take the newest records where fsync was not asked for,
    and then all behind the first that is missing."""
    chance = random.Random(seed)
    logs: dict[tuple[str, int], list[bytes]] = {}
    ids: dict[str, object] = {}
    number = 0
    for _ in range(60):
        act = chance.random()
        if act < 0.1 and len(ids) < 4:
            name = f"t{number}"
            flushed = {"flush.messages": "1"} if chance.random() < 0.5 else {}
            ids[name] = await broker.create(name, 2, flushed)
            logs |= {(name, 0): [], (name, 1): []}
        elif act < 0.15 and ids:
            name = chance.choice(list(ids))
            await broker.ask("DeleteTopics", 5, topic_names=[name], timeout_ms=5000)
            del ids[name], logs[name, 0], logs[name, 1]
        elif act < 0.85 and logs:
            key = chance.choice(list(logs))
            answer = await broker.produce(batch_of(b"%d" % number), *key)
            assert (answer.error_code, answer.base_offset) == (Code.NONE, len(logs[key]))
            logs[key].append(b"%d" % number)
        elif act >= 0.85:
            power_cut = await end_somehow(broker, chance)
            for key in logs:
                found = await values(broker, *key)
                if power_cut and broker.replica(*key).log.settings.flush_messages > 1:
                    logs[key] = logs[key][: len(found)]
                assert found == logs[key]
        number += 1
    answer = await broker.ask("Metadata", 12, topics=None)
    assert {topic.name: topic.topic_id for topic in answer.topics} == ids


@scenario(topics={"t": 1})
async def test_a_topic_with_configs_that_cannot_be(broker: MemoryBroker) -> None:
    await broker.produce(batch_of(b"1"))
    tree = broker.parts.coordination
    path = paths.config(paths.TOPIC_CONFIGS, "t")
    await tree.set(path, paths.encode_config({"segment.bytes": "x"}))
    await broker.die()
    with pytest.raises(StartError, match="topic t .*x for configuration segment.bytes"):
        await broker.revive()
    await broker.instance.stop()
    await broker.tasks.die()
    broker.fs.kill()
    clock, jobs = VirtualClock(), DeferredJobs()
    mending = await open_embedded(
        broker.fs, DATA, clock=clock, tasks=VirtualTasks(clock), jobs=jobs
    )
    await mending.set(path, paths.encode_config({}))
    await mending.close()
    await broker.revive()
    assert await values(broker) == [b"1"]

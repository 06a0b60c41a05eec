"""The controller's requests to this broker. Codes: API.md's inter-broker part, which is Apache
Kafka 3.9's."""

from __future__ import annotations

import uuid

import pytest

from kavka.log.memfs import Fault
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.config.dynamic_rules import Dynamic
from kavka.server.replica import controller_requests
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.records import read_header
from support.batches import build
from support.logs import epoch_entries
from support.memory_broker import MemoryBroker, scenario
from support.replicas import DATA, Hosting, leading, stopping, telling
from support.virtual import settle
from support.wire_client import new_topic

OTHER_ID = uuid.UUID(int=77)


def write(hosting: Hosting, topic: str = "t", index: int = 0) -> None:
    batch = memoryview(build())
    hosting.manager.leader(topic, index).append(batch, read_header(batch))


# -- LeaderAndIsr ---------------------------------------------------------------------------


async def test_leading_makes_logs_with_the_topic_s_settings_and_id(hosting: Hosting) -> None:
    hosting.overrides.in_tree["t"] = {"max.message.bytes": "300"}
    await hosting.lead("t", 0, 1, 2, 3, 4, epoch=3)
    for index in range(5):
        replica = hosting.manager.leader("t", index)
        assert replica.partition.leader_epoch == 3
        assert replica.log.settings.max_message_bytes == 300
        assert replica.log.topic_id == replica.topic_id
        assert hosting.fs.exists(f"{DATA}/t-{index}/partition.metadata")


async def test_nothing_is_made_or_deleted_any_more_when_the_logs_are_to_be_closed(
    hosting: Hosting,
) -> None:
    begun = hosting.tasks.spawn(
        hosting.port.leader_and_isr(leading("t", *range(10))), name="request"
    )
    await settle(2)
    made = [replica.key[1] for replica in hosting.manager]
    hosting.port.close()
    response = await begun
    assert 0 < len(made) < 10
    assert [replica.key[1] for replica in hosting.manager] == made
    rest = [TopicPartition("t", index) for index in range(10) if index not in made]
    assert response.partition_errors == dict.fromkeys(rest, Code.BROKER_NOT_AVAILABLE)
    stopped = await hosting.port.stop_replica(stopping("t", 0))
    assert stopped.partition_errors == {TopicPartition("t", 0): Code.BROKER_NOT_AVAILABLE}
    assert [replica.key[1] for replica in hosting.manager] == made


async def test_each_leadership_begins_an_epoch_in_the_log(hosting: Hosting) -> None:
    await hosting.lead(epoch=2)
    write(hosting)
    await hosting.lead(epoch=2)
    await hosting.lead(epoch=6)
    write(hosting)
    assert epoch_entries(hosting.manager.leader("t", 0).log) == [(2, 0), (6, 3)]


async def test_a_start_takes_over_the_logs_and_their_watermarks(hosting: Hosting) -> None:
    await hosting.lead(isr=(1, 2), replicas=(1, 2))
    write(hosting)
    write(hosting)
    hosting.fs.kill()
    again = Hosting(hosting.fs, {("t", 0): 3, ("t", 1): 5, ("u", 0): 9})
    replica = await again.lead(epoch=1, isr=(1, 2), replicas=(1, 2))
    assert (replica.log.end_offset, replica.high_watermark) == (6, 3)
    assert (await again.lead("t", 1)).high_watermark == 0, "not beyond its end"
    assert again.manager.high_watermarks() == {("t", 0): 3, ("t", 1): 0}


async def test_a_high_watermark_outlives_its_replica(hosting: Hosting) -> None:
    """StopReplica without deletion, a checkpoint, and perhaps a restart."""
    await hosting.lead(replicas=(1, 2))
    write(hosting)
    for epoch in (1, 3):
        await hosting.port.stop_replica(stopping(delete=False))
        for _ in range(2 if epoch == 3 else 0):
            hosting.logs.checkpoint(hosting.manager.high_watermarks()).run()
            hosting.fs.kill()
            hosting = Hosting(hosting.fs)  # whose first checkpoint may come before LeaderAndIsr
        again = await hosting.lead(epoch=epoch, isr=(1, 2), replicas=(1, 2), new=False)
        assert (again.log.end_offset, again.high_watermark) == (3, 3)


async def test_a_deleted_log_leaves_no_watermark(hosting: Hosting) -> None:
    await hosting.lead(replicas=(1, 2))
    write(hosting)
    await hosting.port.stop_replica(stopping(delete=True))
    again = await hosting.lead(isr=(1, 2), replicas=(1, 2))
    assert (again.log.end_offset, again.high_watermark) == (0, 0)
    assert hosting.logs.high_watermarks() == {}


async def test_a_watermark_is_not_before_the_start_of_its_log(hosting: Hosting) -> None:
    """What was deleted had been committed, whatever the older of two checkpoints says."""
    replica = await hosting.lead()
    write(hosting)
    write(hosting)
    replica.log.advance_start(5)
    hosting.logs.checkpoint({("t", 0): 3}).run()
    hosting.fs.kill()
    again = await Hosting(hosting.fs, {("t", 0): 3}).lead(isr=(1, 2), replicas=(1, 2))
    assert (again.log.start_offset, again.high_watermark) == (5, 5)


async def test_following_stops_leading(hosting: Hosting) -> None:
    replica = await hosting.lead()
    waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
    answer = await hosting.port.leader_and_isr(
        leading(leader=2, epoch=1, isr=(2,), replicas=(1, 2))
    )
    assert (answer.error_code, answer.partition_errors) == (Code.NONE, {})
    assert not replica.partition.is_leader and replica.partition.leader == 2
    await settle()
    assert waiting.done()


async def test_what_is_out_of_date_or_of_another_topic_is_refused(hosting: Hosting) -> None:
    port = hosting.port
    await hosting.lead(epoch=5, controller_epoch=3)
    older = await port.leader_and_isr(leading(epoch=9, controller_epoch=2))
    assert (older.error_code, older.partition_errors) == (Code.STALE_CONTROLLER_EPOCH, {})
    where = TopicPartition("t", 0)
    answer = await port.leader_and_isr(leading(epoch=4, controller_epoch=3))
    assert answer.partition_errors == {where: Code.STALE_CONTROLLER_EPOCH}
    other = leading(epoch=9, controller_epoch=3, topic_id=OTHER_ID)
    answer = await port.leader_and_isr(other)
    assert answer.partition_errors == {where: Code.INCONSISTENT_TOPIC_ID}
    assert hosting.manager.leader("t", 0).partition.leader_epoch == 5


async def test_a_log_that_cannot_be_made_is_made_in_another_directory(two_dirs: Hosting) -> None:
    hosting = two_dirs
    hosting.fs.faults.append(Fault("create", "t-1/00000000000000000000.log"))
    answer = await hosting.port.leader_and_isr(leading("t", 0, 1, 2))
    assert not answer.partition_errors
    assert [replica.log.directory for replica in hosting.manager] == [
        "/data/t-0",
        "/data/t-1",
        "/data/t-2",
    ]
    assert list(hosting.logs.failed_directories) == ["/more"]


async def test_without_a_directory_no_log_is_made(
    hosting: Hosting, caplog: pytest.LogCaptureFixture
) -> None:
    hosting.fs.faults.append(Fault("make_dir", "t-1"))
    answer = await hosting.port.leader_and_isr(leading("t", 0, 1, 2))
    others = {TopicPartition("t", index): Code.KAFKA_STORAGE_ERROR for index in (1, 2)}
    assert answer.partition_errors == others
    assert [replica.key for replica in hosting.manager] == [("t", 0)]
    assert "t-1 is offline, its log failed: all log directories are offline" in caplog.text
    answer = await hosting.port.leader_and_isr(leading("t", 0))
    assert answer.partition_errors == {TopicPartition("t", 0): Code.KAFKA_STORAGE_ERROR}


async def test_no_empty_log_takes_the_place_of_one_that_can_not_be_read(two_dirs: Hosting) -> None:
    """Its records would be lost for good when the directory is well again (KIP-112)."""
    hosting = two_dirs
    await hosting.lead("t", 0, 1)
    write(hosting, index=1)
    hosting.fs.kill()
    hosting.fs.faults.append(Fault("lock", "/more/.lock"))
    again = Hosting(hosting.fs, directories=(DATA, "/more"))
    answer = await again.port.leader_and_isr(leading("t", 0, 1, epoch=1, new=False))
    assert answer.partition_errors == {TopicPartition("t", 1): Code.KAFKA_STORAGE_ERROR}
    with pytest.raises(ApiError) as refused:
        again.manager.leader("t", 1)
    assert refused.value.code == Code.KAFKA_STORAGE_ERROR
    stopped = await again.port.stop_replica(stopping("t", 0, 1))
    assert stopped.partition_errors == {TopicPartition("t", 1): Code.KAFKA_STORAGE_ERROR}
    await again.lead("new", 0)
    assert again.logs.get("new", 0) is not None, "which is in nobody's place"
    hosting.fs.kill()
    well = Hosting(hosting.fs, directories=(DATA, "/more"))
    replica = await well.lead("t", 1, epoch=2, new=False)
    assert (replica.log.directory, replica.log.end_offset) == ("/more/t-1", 3)


async def test_a_log_of_another_topic_is_not_taken_over(hosting: Hosting) -> None:
    """Its records are not this topic's; what to do with them is for a human to say."""
    await hosting.lead()
    write(hosting)
    hosting.fs.kill()
    again = Hosting(hosting.fs)
    answer = await again.port.leader_and_isr(leading(topic_id=OTHER_ID))
    assert answer.partition_errors == {TopicPartition("t", 0): Code.KAFKA_STORAGE_ERROR}
    log = again.logs.get("t", 0)
    assert log is not None and log.end_offset == 3


async def test_settings_that_change_count_at_once(hosting: Hosting) -> None:
    await hosting.lead("t", 0, 1)
    await hosting.lead("u")
    hosting.overrides.change("t", {"max.message.bytes": "300"})
    limits = {one.key: one.log.settings.max_message_bytes for one in hosting.manager}
    assert limits == {("t", 0): 300, ("t", 1): 300, ("u", 0): 1_048_588}


async def test_settings_of_a_big_topic_are_changed_turn_by_turn(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_requests, "CONFIGURED_PER_TURN", 2)
    await hosting.lead("t", *range(6))

    def limits() -> list[int]:
        return [one.log.settings.max_message_bytes for one in hosting.manager.of_topic("t")]

    hosting.overrides.change("t", {"max.message.bytes": "300"})
    assert limits() == [300] * 2 + [1_048_588] * 4
    await settle()
    assert limits() == [300] * 6


@pytest.mark.parametrize("per_turn", [1, 2, 500])
async def test_the_broker_s_new_defaults_reach_all_logs(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch, per_turn: int
) -> None:
    monkeypatch.setattr(controller_requests, "CONFIGURED_PER_TURN", per_turn)
    await hosting.lead("t", 0, 1, 2)
    await hosting.lead("u")
    hosting.overrides.change("u", {"max.message.bytes": "300"})
    start = hosting.live.now
    changed = Dynamic({"message.max.bytes": "200", "log.segment.bytes": "2000000"}, {})
    hosting.live.change(start.with_dynamic(changed))
    await settle()
    found = [
        (one.log.settings.max_message_bytes, one.log.settings.segment_bytes)
        for one in hosting.manager
    ]
    assert found == [(200, 2_000_000)] * 3 + [(300, 2_000_000)]


async def test_settings_that_a_topic_can_not_have_are_told_and_left_out(
    hosting: Hosting, caplog: pytest.LogCaptureFixture
) -> None:
    await hosting.lead("t")
    hosting.overrides.change("t", {"max.message.bytes": "many"})
    (replica,) = hosting.manager
    assert replica.log.settings.max_message_bytes == 1_048_588
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert record.message.startswith("can't apply configs of topic t: Invalid value many")


# -- UpdateMetadata -------------------------------------------------------------------------


async def test_metadata_of_an_older_controller_are_ignored(hosting: Hosting) -> None:
    await hosting.port.update_metadata(telling("t", 0, controller_epoch=3))
    await hosting.port.update_metadata(telling("old", 0, controller_epoch=2))
    await hosting.port.update_metadata(telling("u", 0, controller_epoch=3))
    assert list(hosting.metadata.image.topics) == ["t", "u"]


# -- StopReplica ----------------------------------------------------------------------------


async def test_a_deletion_takes_the_log_away(hosting: Hosting) -> None:
    await hosting.lead("t", 0, 1)
    write(hosting)
    answer = await hosting.port.stop_replica(stopping("t", 0, 1, 7))
    assert (answer.error_code, answer.partition_errors) == (Code.NONE, {}), "7 was never here"
    assert list(hosting.manager) == [] and len(hosting.logs) == 0
    assert all(name.endswith("-delete") for name in hosting.fs.list_dir(DATA) if "t-" in name)
    again = await hosting.port.stop_replica(stopping("t", 0, 1))
    assert again.partition_errors == {}


async def test_a_deletion_is_on_disk_when_it_is_answered(hosting: Hosting) -> None:
    hosting.overrides.in_tree["t"] = {"flush.messages": "1"}
    await hosting.lead()
    write(hosting)
    await hosting.manager.flusher.wait_idle()
    hosting.fs.sync_dir(DATA)
    await hosting.port.stop_replica(stopping())
    hosting.fs.crash()
    assert not hosting.fs.exists(f"{DATA}/t-0")


async def test_a_deletion_that_may_not_last_is_not_acknowledged(hosting: Hosting) -> None:
    await hosting.lead("t", 0, 1)
    hosting.fs.faults.append(Fault("sync_dir", DATA))
    answer = await hosting.port.stop_replica(stopping("t", 0, 1))
    failed = dict.fromkeys(
        (TopicPartition("t", 0), TopicPartition("t", 1)), Code.KAFKA_STORAGE_ERROR
    )
    assert answer.partition_errors == failed
    answer = await hosting.port.stop_replica(stopping("t", 0, 1))
    assert answer.partition_errors == {}, "asked again, it is"


async def test_stopping_without_deletion_keeps_the_log(hosting: Hosting) -> None:
    await hosting.lead(epoch=3)
    write(hosting)
    answer = await hosting.port.stop_replica(stopping(epoch=3, delete=False))
    assert answer.partition_errors == {}
    assert list(hosting.manager) == []
    replica = await hosting.lead(epoch=4)
    assert replica.log.end_offset == 3


async def test_stops_that_are_out_of_date(hosting: Hosting) -> None:
    await hosting.lead(epoch=3, controller_epoch=2)
    older = await hosting.port.stop_replica(stopping(controller_epoch=1))
    assert older.error_code == Code.STALE_CONTROLLER_EPOCH
    fenced = await hosting.port.stop_replica(stopping(epoch=2, controller_epoch=2))
    assert fenced.partition_errors == {TopicPartition("t", 0): Code.FENCED_LEADER_EPOCH}
    assert hosting.manager.leader("t", 0).partition.leader_epoch == 3


async def test_a_failed_log_is_not_deleted_until_a_restart(hosting: Hosting) -> None:
    replica = await hosting.lead()
    hosting.manager.failures.storage_failed(replica, OSError(5, "no"))
    answer = await hosting.port.stop_replica(stopping())
    assert answer.partition_errors == {TopicPartition("t", 0): Code.KAFKA_STORAGE_ERROR}
    assert hosting.fs.exists(f"{DATA}/t-0")


async def test_a_directory_that_cannot_be_renamed(hosting: Hosting) -> None:
    await hosting.lead()
    hosting.fs.faults.append(Fault("rename", "t-0"))
    answer = await hosting.port.stop_replica(stopping())
    assert answer.partition_errors == {TopicPartition("t", 0): Code.KAFKA_STORAGE_ERROR}


# -- seen by a client -----------------------------------------------------------------------


@scenario("log.dirs=/data,/more")
async def test_a_topic_whose_log_cannot_be_made(broker: MemoryBroker) -> None:
    """It is created, and has no leader until the disk is well and the broker starts again."""
    broker.fs.faults.append(Fault("create", "t-0/00000000000000000000.log", times=2))
    asked = {"timeout_ms": 1000, "topics": [new_topic("t")]}
    broker.client.send("CreateTopics", 7, **asked)
    await broker.advance(1000)
    (topic,) = (await broker.ask("Metadata", 9, topics=[{"name": "t"}])).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (Code.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == [1]
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
    assert broker.failed == 1, "no directory is left"
    await broker.restart()
    assert (await broker.produce(build())).error_code == Code.NONE

"""Opening what is there: after a clean stop, after a crash, and when files are damaged."""

from __future__ import annotations

import logging
import os
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec.batches import patch
from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.memfs import MemFs
from kavka.log.scan import headers
from kavka.wire.errors import ApiError
from kavka.wire.record_batches import HEADER_BYTES, set_offset_and_epoch
from support import logs
from support.logs import Broker, Producer, Read

SMALL = logs.settings(segment_bytes=1500, index_interval_bytes=300)


def written(count: int = 40) -> tuple[MemFs, Broker, list[Read]]:
    """A broker with a log of several segments (8 batches each), of which nothing was flushed."""
    fs = MemFs()
    broker = Broker(fs, log_settings=SMALL)
    log = broker.log()
    for number in range(count):
        data = logs.batch(
            [b"%0100d" % number, b"x"],
            timestamps=logs.TIMESTAMP + number,
            producer=Producer(5, 0, 2 * number),
        )
        logs.append(log, data, leader_epoch=number // 10)
    return fs, broker, logs.read_from(log)


def assert_whole(broker: Broker, records: list[Read]) -> None:
    """The log works, holds these records, and its state fits them."""
    log = broker.log()
    end = records[-1].offset + 1 if records else 0
    assert log.end_offset == end
    assert logs.read_from(log) == records
    batches = end // 2
    assert logs.epoch_entries(log) == [(epoch, 20 * epoch) for epoch in range((batches + 9) // 10)]
    states = list(log.producers)
    assert [state.last_sequence for state in states] == ([end - 1] if end else [])
    for number in range(batches):
        found = log.batch_for_timestamp(logs.TIMESTAMP + number)
        assert found is not None and found.base_offset == 2 * number
    data = logs.batch([b"more", b"and more"], producer=Producer(5, 0, end))
    assert logs.append(log, data, leader_epoch=99).base_offset == end


@pytest.mark.parametrize("again", [Broker.restart, Broker.kill])
def test_restart_and_recovery_restore_everything(again: Callable[[Broker], None]) -> None:
    _, broker, records = written()
    again(broker)
    assert_whole(broker, records)


def test_recovered_files_are_those_of_an_orderly_stop() -> None:
    fs, broker, _ = written()
    log = broker.log()
    broker.restart()
    names = [
        *logs.files(fs, log, "index"),
        *logs.files(fs, log, ".log"),
        *logs.files(fs, log, "checkpoint"),
    ]
    names += [name for name in logs.files(fs, log, ".snapshot") if "80.snap" not in name]
    before = {name: fs.read_bytes(name) for name in names}
    fs.remove("/data/recovery-point-offset-checkpoint")
    broker.kill()
    assert {name: fs.read_bytes(name) for name in names} == before


def test_only_segments_after_the_recovery_point_are_recovered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A flushed segment is trusted: damage there is found and reported when it is read."""
    fs, broker, records = written()
    log = broker.log()
    logs.flush(log)
    broker.logs.checkpoint({}).run()
    fs.open(logs.files(fs, log, ".log")[1]).pwrite(bytes(HEADER_BYTES), 0)
    broker.kill()
    log = broker.log()
    assert log.end_offset == 80
    assert logs.read_from(log, 40) == records[40:]
    with pytest.raises(CorruptLogError, match=r"\.log has no batch at byte 0"):
        logs.read_from(log)


@pytest.mark.parametrize("again", [Broker.restart, Broker.kill])
@pytest.mark.parametrize("lost", [".snapshot", "leader-epoch-checkpoint"])
def test_a_log_is_served_though_flushed_records_are_damaged_that_others_are_rebuilt_from(
    again: Callable[[Broker], None], lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    fs, broker, records = written()
    log = broker.log()
    logs.flush(log)
    broker.logs.checkpoint({}).run()
    broker.restart()
    log = broker.log()
    path = logs.files(fs, log, ".log")[1]
    kept = fs.read_bytes(path)[:700]
    fs.create(path).pwrite(kept, 0)
    for name in logs.files(fs, log, lost):
        fs.remove(name)
    fs.remove(path.replace(".log", ".index"))
    broker.logs.checkpoint({}).run()
    broker.kill()
    again(broker)
    log = broker.log()
    assert log.end_offset == 80
    assert logs.read_from(log, 40) == records[40:]
    assert any(f"{path} has no batch at byte" in entry.getMessage() for entry in caplog.records)
    (producer,) = log.producers
    assert producer.last_sequence == 79
    assert logs.epoch_entries(log)[-1] == (3, 60)


@pytest.mark.parametrize("first", [3, 20])
@pytest.mark.parametrize("field", [0, 3, 8, 16])  # base offset, size, magic
def test_a_damaged_log_is_not_served_if_aborted_transactions_can_not_be_told_apart(
    first: int, field: int
) -> None:
    """The transaction begins before the damage, or behind it, where only the index leads."""
    fs = MemFs()
    broker = Broker(fs, log_settings=logs.settings(segment_bytes=8000, index_interval_bytes=300))
    log = broker.log()
    for number in range(60):
        producer = Producer(7, 0, 0) if number == first else logs.NO_PRODUCER
        data = logs.batch([b"v" * 200], producer=producer, transactional=number == first)
        logs.append(log, data)
    logs.flush(log)
    broker.logs.checkpoint({}).run()
    path = logs.files(fs, log, ".log")[0]
    for name in logs.files(fs, log, ".snapshot"):
        fs.remove(name)
    file = fs.open(path)
    position, _ = next(islice(headers(file, path, 0, file.size()), 10, None))
    file.pwrite(b"\x7f", position + field)
    with pytest.raises(StorageError, match=f"{path} .* transactions"):
        broker.kill()


TAILS = {"nothing": b"", "zeros": bytes(5000), "ones": b"\xff" * 700}


@settings(max_examples=120)
@given(st.data())
def test_a_log_truncated_anywhere_keeps_its_whole_batches(data: st.DataObject) -> None:
    fs, broker, records = written()
    paths = logs.files(fs, broker.log(), ".log")
    path = data.draw(st.sampled_from([paths[-1], paths[2]]))
    content = fs.read_bytes(path)
    cut = data.draw(st.integers(0, len(content) - 1))
    tail = TAILS[data.draw(st.sampled_from(sorted(TAILS)))]
    damaged = content[:cut] + tail
    fs.create(path).pwrite(damaged, 0)
    sound = len(os.path.commonprefix([content, damaged]))
    whole = [read.offset for read in logs.parse(content[:sound])]
    end = whole[-1] + 1 if whole else int(path.rpartition("/")[2][:20])
    broker.kill()
    assert_whole(broker, records[:end])


@settings(max_examples=200)
@given(st.data())
def test_a_flipped_bit_is_never_served(data: st.DataObject) -> None:
    """Any bit of the last two segments. Those of base offset and leader epoch are in no CRC:
    there a flip may show as a gap or an epoch, but no record's content is ever wrong."""
    fs, broker, records = written()
    path = data.draw(st.sampled_from(logs.files(fs, broker.log(), ".log")[-2:]))
    at = data.draw(st.integers(0, fs.size(path) - 1))
    byte = fs.read_bytes(path)[at] ^ (1 << data.draw(st.integers(0, 7)))
    fs.open(path).pwrite(bytes([byte]), at)
    broker.kill()
    log = broker.log()
    read = logs.read_from(log)
    kept = [(record.timestamp, record.value) for record in read]
    assert kept == [(record.timestamp, record.value) for record in records[: len(read)]]
    offsets = [record.offset for record in read]
    assert offsets == sorted(set(offsets))
    base = int(path.rpartition("/")[2][:20])
    assert len(read) >= base, "what lies before the damage is untouched"
    logs.fill(log, 1)
    assert len(logs.read_from(log)) == len(read) + 1


def test_every_byte_of_the_last_header() -> None:
    fs, broker, records = written(12)
    path = logs.files(fs, broker.log(), ".log")[-1]
    content = fs.read_bytes(path)
    [start] = [at for at in range(len(content)) if content[at:].startswith((22).to_bytes(8, "big"))]
    outside_crc = [*range(0, 8), *range(12, 16)]
    for at in range(HEADER_BYTES):
        damaged = bytearray(content)
        damaged[start + at] ^= 0xFF
        fs.create(path).pwrite(damaged, 0)
        broker.kill()
        log = broker.log()
        if at not in outside_crc:
            assert logs.read_from(log) == records[:22], at
            assert log.end_offset == 22
        else:
            assert logs.read_from(log)[:22] == records[:22]
        fs.create(path).pwrite(content, 0)


GARBAGE = {
    "missing": None,
    "empty": b"",
    "zeros": bytes(1000),
    "garbage": random.Random(0).randbytes(999),
}


@pytest.mark.parametrize("again", [Broker.restart, Broker.kill])
@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_derived_files_are_rebuilt(
    suffix: str, content: bytes | None, again: Callable[[Broker], None]
) -> None:
    """Any of them damaged while the broker is down: the log is served as if nothing had been.

    But for the producers' state: like Apache Kafka's, an orderly stopped broker without any
    snapshot takes it that there never were producers.
    """
    fs, broker, records = written()
    log = broker.log()
    if again is Broker.restart:
        broker.logs.close()
    else:
        logs.flush(log)
        broker.logs.checkpoint({}).run()
    for path in logs.files(fs, log, suffix):
        fs.remove(path)
        if content is not None:
            fs.create(path).pwrite(content, 0)
    if again is Broker.restart:
        broker.start()
    else:
        broker.kill()
    if suffix == ".snapshot" and content is None and again is Broker.restart:
        assert list(broker.log().producers) == []
        assert logs.read_from(broker.log()) == records
    else:
        assert_whole(broker, records)


def test_a_wrong_recovery_point_loses_nothing() -> None:
    fs, broker, records = written()
    for content in (
        b"0\n1\nt 0 0\n",
        b"0\n1\nt 0 7\n",
        b"0\n1\nt 0 100000\n",
        b"no checkpoint",
        b"",
    ):
        fs.write_atomic("/data/recovery-point-offset-checkpoint", content, sync=True)
        broker.kill()
        assert logs.read_from(broker.log()) == records


def test_a_start_offset_is_kept() -> None:
    fs, broker, records = written()
    for again in (Broker.restart, Broker.kill):
        log = broker.log()
        log.start_offset = 15
        broker.logs.checkpoint({}).run()
        again(broker)
        log = broker.log()
        assert (log.start_offset, logs.first_base_offset(log)) == (15, 0)
        with pytest.raises(ApiError):
            log.read(14, 100, upto=80, at_least_one=True)
        assert [read.offset for read in logs.read_from(log, 15)] == list(range(15, 80))
        assert logs.epoch_entries(log)[0] == (0, 15)


def test_a_log_that_ends_before_its_start_becomes_empty(caplog: pytest.LogCaptureFixture) -> None:
    fs, broker, _ = written()
    directory = broker.log().directory
    fs.write_atomic("/data/log-start-offset-checkpoint", b"0\n1\nt 0 500\n", sync=True)
    broker.kill()
    log = broker.log()
    assert (log.start_offset, log.end_offset, log.segment_count) == (500, 500, 1)
    assert logs.epoch_entries(log) == [] and list(log.producers) == []
    assert "before its log start offset 500" in caplog.text
    assert {name[:20] for name in fs.list_dir(directory) if name[0].isdigit()} == {f"{500:020d}"}


def test_a_log_without_its_first_segment_starts_later() -> None:
    fs, broker, records = written()
    first, second, *_ = logs.files(fs, broker.log(), ".log")
    broker.logs.close()
    fs.remove(first)
    broker.start()
    log = broker.log()
    base = int(second.rpartition("/")[2][:20])
    assert log.start_offset == base
    assert logs.read_from(log, base) == records[base:]
    assert not fs.exists(first.replace(".log", ".index")), "an index without its log"


def test_a_hole_between_unflushed_segments_ends_the_log() -> None:
    """A power failure may have taken the end of one, at a batch's end, but not the next."""
    fs, broker, records = written()
    second, third = logs.files(fs, broker.log(), ".log")[1:3]
    content = fs.read_bytes(second)
    offsets = sorted({read.offset // 2 * 2 for read in logs.parse(content)})
    last = content.rindex(offsets[-1].to_bytes(8, "big"))
    fs.open(second).truncate(last)
    broker.kill()
    assert_whole(broker, records[: offsets[-1]])
    assert not fs.exists(third)


def test_segments_removed_by_recovery_stay_removed_after_a_power_failure() -> None:
    """Of a compacted log, where a gap between segments is no sign of loss."""
    fs = MemFs()
    broker = Broker(fs, log_settings=replace(SMALL, cleanup_policy=("compact",)))
    logs.fill(broker.log(), 60)
    assert broker.log().segment_count > 3
    logs.flush(broker.log())  # and no checkpoint has it
    fs.flip_bit(logs.files(fs, broker.log(), ".log")[0], 8 * 70)
    broker.kill()
    assert broker.log().end_offset == 0
    broker.crash()
    assert broker.log().end_offset == 0


def test_a_gap_in_a_compacted_log_is_kept() -> None:
    """Of Apache Kafka's, which leaves gaps between segments."""
    settings = logs.settings(segment_bytes=1000, cleanup_policy=("compact",))
    broker = Broker(MemFs(), log_settings=settings)
    log = broker.log()
    logs.fill(log, 30)
    records = logs.read_from(log)
    names = broker.fs.list_dir(log.directory)
    bases = logs.base_offsets(broker.fs, log)
    for name in names:
        if name.startswith(f"{bases[2]:020d}"):
            broker.fs.remove(f"{log.directory}/{name}")
    broker.kill()
    left = [record for record in records if not bases[2] <= record.offset < bases[3]]
    assert logs.read_from(broker.log()) == left
    assert broker.log().end_offset == 30


@pytest.mark.parametrize("evidence", ["cleaner checkpoint", "holes", "records", "none"])
@pytest.mark.parametrize("point", ["0", "12", "1000000", "x"])
def test_a_hole_in_a_log_that_was_compacted_before_its_policy_changed(
    evidence: str, point: str
) -> None:
    """By Apache Kafka, which recovers all segments despite gaps between them. `point`: the
    recovery point in the checkpoint, which may be wrong."""
    fs = MemFs()
    broker = Broker(fs, log_settings=logs.settings(segment_bytes=1000))
    log = broker.log()
    logs.fill(log, 30)
    directory = log.directory
    bases = logs.base_offsets(fs, log)
    gone = set(range(bases[2], bases[3]))
    for suffix in (".log", ".index", ".timeindex"):
        fs.remove(f"{directory}/{bases[2]:020d}{suffix}")
    path = f"{directory}/{bases[4]:020d}.log"
    content = fs.read_bytes(path)
    second = content.index((bases[4] + 1).to_bytes(8, "big") + b"\0\0\0")
    third = content.index((bases[4] + 2).to_bytes(8, "big") + b"\0\0\0")
    if evidence == "holes":
        fs.create(path).pwrite(content[:second] + content[third:], 0)
        gone.add(bases[4] + 1)
    elif evidence == "records":  # the first of the batch's two is gone
        one_of_two = patch(
            bytearray(logs.batch([b"left"])), last_offset_delta=1, base_offset=bases[4]
        )
        fs.create(path).pwrite(bytes(one_of_two) + content[third:], 0)
        gone.add(bases[4] + 1)
    elif evidence == "cleaner checkpoint":
        lines = b"0\n1\nt 0 %d\n" % bases[4]
        fs.write_atomic("/data/cleaner-offset-checkpoint", lines, sync=True)
    lines = b"0\n1\nt 0 %s\n" % point.encode()
    fs.write_atomic("/data/recovery-point-offset-checkpoint", lines, sync=True)
    broker.kill()
    log = broker.log()
    if evidence == "none" and point == "0":
        assert log.end_offset == bases[2], "as where a power failure took the end of a segment"
        return
    assert log.end_offset == 30
    left = [record.offset for record in logs.read_from(log)]
    assert left == [offset for offset in range(30) if offset not in gone]


@pytest.mark.parametrize("bit", [0, 5, 17])
def test_a_recovery_point_beyond_the_end_is_ignored(bit: int) -> None:
    """A bit of it has flipped; then the power went, and took from a segment below it."""
    fs, broker, records = written()
    logs.flush(broker.log())
    broker.logs.checkpoint({}).run()
    second, third = logs.files(fs, broker.log(), ".log")[1:3]
    checkpoint = "/data/recovery-point-offset-checkpoint"
    content = bytearray(fs.read_bytes(checkpoint))
    at = content.index(b"80")
    content[at : at + 2] = b"980"
    fs.write_atomic(checkpoint, bytes(content), sync=True)
    fs.flip_bit(second, bit + 8 * 70)
    broker.kill()
    log = broker.log()
    assert log.end_offset < 80 and not fs.exists(third)
    assert logs.read_from(log) == records[: log.end_offset]


def test_damage_below_the_recovery_point_costs_nothing_in_the_segments_before() -> None:
    """The segment with the recovery point is cut at its damage. Another one is damaged too: that is
    no reason to cut there, and to lose intact flushed segments in between."""
    fs, broker, records = written()
    logs.flush(broker.log())
    broker.logs.checkpoint({}).run()
    paths = logs.files(fs, broker.log(), ".log")
    for path in (paths[1], paths[-1]):
        fs.flip_bit(path, 8 * (len(fs.read_bytes(path)) - 1))
    broker.kill()
    log = broker.log()
    assert 64 < log.end_offset < 80
    assert logs.read_from(log, 32) == records[32 : log.end_offset]


def test_a_clean_shutdown_marker_on_a_damaged_log_is_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs, broker, records = written()
    path = logs.files(fs, broker.log(), ".log")[-1]
    broker.logs.close()
    fs.open(path).truncate(fs.size(path) - 1)
    broker.start()
    log = broker.log()
    assert 0 < log.end_offset < 80
    assert logs.read_from(log) == records[: log.end_offset]
    assert "despite a clean shutdown" in caplog.text


def test_messages_of_an_old_format_are_not_truncated() -> None:
    fs, broker, _ = written()
    path = logs.files(fs, broker.log(), ".log")[-1]
    # an empty message of format 1, with its CRC-32: offset, size, crc; magic, attributes, time
    message = bytes.fromhex(
        "0000000000000000 00000016 00000000 01 00 0000000000000000 ffffffff ffffffff"
    )
    crc = zlib.crc32(message[16:]).to_bytes(4, "big")
    size = fs.size(path)
    fs.open(path).pwrite(message[:12] + crc + message[16:], size)
    with pytest.raises(StorageError, match="message of format 1"):
        broker.kill()
    assert fs.size(path) == size + 34


def test_recovery_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    fs, broker, _ = written()
    path = logs.files(fs, broker.log(), ".log")[-1]
    fs.open(path).truncate(fs.size(path) - 1)
    with caplog.at_level(logging.INFO):
        broker.kill()
    assert "recovering 1 logs in /data after an unclean shutdown" in caplog.text
    assert f"truncated {path} to" in caplog.text


def test_batches_need_not_be_dense() -> None:
    """Compaction, and truncation into a batch, leave gaps within a segment."""
    fs = MemFs()
    broker = Broker(fs, log_settings=SMALL)
    log = broker.log()
    content = b""
    for offset in (3, 4, 10, 1000, 5000):
        data = logs.batch([b"%d" % offset])
        set_offset_and_epoch(data, offset, 0)
        content += bytes(data)
    fs.open(logs.files(fs, log, ".log")[0]).pwrite(content, 0)
    for again in (Broker.kill, Broker.restart):
        again(broker)
        log = broker.log()
        assert log.end_offset == 5001
        assert [read.offset for read in logs.read_from(log)] == [3, 4, 10, 1000, 5000]
        found = log.read(11, 1000, upto=5001, at_least_one=True)
        assert found is not None and found.base_offset == 1000


@pytest.mark.parametrize("offsets", [(0, 1, 1), (0, 2, 1), (5, 4), (0, 2**31)])
def test_offsets_have_to_rise_and_to_fit(offsets: tuple[int, ...]) -> None:
    fs = MemFs()
    broker = Broker(fs)
    content = b""
    for offset in offsets:
        data = logs.batch([b"%d" % offset])
        set_offset_and_epoch(data, offset, 0)
        content += bytes(data)
    fs.open(logs.files(fs, broker.log(), ".log")[0]).pwrite(content, 0)
    broker.kill()
    assert [read.offset for read in logs.read_from(broker.log())] == list(offsets[:-1])


def test_a_large_segment_is_read_in_bounded_memory() -> None:
    fs = MemFs()
    broker = Broker(fs)
    value = random.Random(0).randbytes(3 << 20)
    for _ in range(3):
        logs.append(broker.log(), logs.batch([value]))
    broker.kill()
    log = broker.log()
    assert log.end_offset == 3
    fs.open(logs.files(fs, log, ".log")[0]).pwrite(b"\xff", log.size_bytes - 1)
    broker.kill()
    assert broker.log().end_offset == 2


def test_a_recovery_point_beyond_the_end_is_corrected_before_anything_is_appended() -> None:
    """Else what is appended, and never flushed, would be taken for flushed by the next recovery."""
    fs, broker, _ = written()
    path = logs.files(fs, broker.log(), ".log")[0]
    fs.write_atomic("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 80\n", sync=True)
    for name in fs.list_dir(broker.log().directory):
        if name[0].isdigit() and not path.endswith(name):
            fs.remove(f"{broker.log().directory}/{name}")
    broker.kill()
    end = broker.log().end_offset
    assert 0 < end < 80
    assert fs.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 %d\n" % end
    fs.crash()
    assert fs.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 %d\n" % end


@pytest.mark.parametrize("how", ["a clean stop", "a roll"])
def test_the_greatest_timestamp_survives_a_power_failure(how: str) -> None:
    """All records are flushed, their indexes not; a power failure may lose more of one index."""
    for seed in range(60):
        settings = logs.settings(index_interval_bytes=200, kavka_durability="fsync")
        broker = Broker(MemFs(), log_settings=settings)
        log = broker.log()
        for number in range(400):
            later_ms = number * 1000 if number < 300 else number
            logs.append(log, logs.batch([b"%0100d" % number], timestamps=logs.TIMESTAMP + later_ms))
            if number == 150:
                log._active.write_indexes()
        plan = log.flush_plan(logs.TIMESTAMP)
        assert plan is not None
        plan.run()
        log.flushed(plan)
        broker.logs.checkpoint({}).run()
        if how == "a roll":
            log.roll(logs.TIMESTAMP)
        else:
            broker.logs.close()
        broker.crash(random.Random(seed))
        found = broker.log().batch_for_timestamp(logs.TIMESTAMP + 299_000)
        assert found is not None and found.base_offset == 299, seed


@pytest.mark.parametrize(
    ("changes", "is_flushed"),
    [
        ({"kavka_durability": "fsync"}, True),
        ({"flush_messages": 3}, True),
        ({"flush_messages": 4}, False),
        ({}, False),
    ],
)
def test_records_that_wait_for_a_flush_are_flushed_at_the_start(
    fs: MemFs, changes: dict[str, Any], is_flushed: bool
) -> None:
    """Consumers have read them before the kill: they must not wait for the next flush again."""
    broker = Broker(fs, log_settings=logs.settings(**changes))
    logs.fill(broker.log(), 3)
    broker.kill()
    log = broker.log()
    assert log.end_offset == 3
    assert log.recovery_point == (3 if is_flushed else 0)
    broker.crash()
    assert broker.log().end_offset == (3 if is_flushed else 0)

"""Segments in a row: which one an offset belongs to, with gaps and empty ones in between."""

from __future__ import annotations

import pytest

from kavka.log.disk import Disk
from kavka.log.memfs import MemFs
from kavka.log.segment import Segment
from kavka.log.segments import SegmentList, mark_deleted
from kavka.wire.record_batches import set_offset_and_epoch
from support import logs


@pytest.fixture
def disk() -> Disk:
    fs = MemFs()
    fs.make_dir("/d")
    return Disk(fs, open_files_max=10, index_cache_bytes=0)


@pytest.fixture
def segment_list(disk: Disk) -> SegmentList:
    """Segments from 0, 10 and 20 on; the second is empty, the last ends at 25."""
    segments = []
    for base, offsets in ((0, (0, 3, 7)), (10, ()), (20, (22, 24))):
        segment = Segment.create(disk, "/d", base, logs.settings())
        for offset in offsets:
            data = logs.batch([b"v"], timestamps=100 + offset)
            set_offset_and_epoch(data, offset, 0)
            segment.append(data, len(data), offset, 100 + offset)
        segments.append(segment)
    return SegmentList(segments)


def test_by_base_offset(segment_list: SegmentList) -> None:
    assert (
        len(segment_list) == 3
        and segment_list.at(0).base_offset == 0
        and segment_list.active.base_offset == 20
    )
    assert [segment_list.floor(offset).base_offset for offset in (0, 9, 10, 19, 20, 99)] == [
        0, 0, 10, 10, 20, 20,
    ]  # fmt: skip
    assert [segment_list.slot(offset) for offset in (-5, 0, 10, 99)] == [0, 0, 1, 2]
    assert [segment.base_offset for segment in segment_list.since(12)] == [10, 20]
    first, second, last = segment_list
    assert segment_list.ends_before(first, 10) and not segment_list.ends_before(first, 9)
    assert not segment_list.ends_before(last, 10**9)


@pytest.mark.parametrize(
    ("offset", "base"), [(0, 0), (1, 3), (4, 7), (8, 22), (10, 22), (15, 22), (23, 24), (25, None)]
)
def test_the_next_batch_may_be_in_a_later_segment(
    segment_list: SegmentList, offset: int, base: int | None
) -> None:
    found = segment_list.locate(offset)
    assert (None if found is None else found[1].base_offset) == base


@pytest.mark.parametrize(
    ("timestamp", "start", "base"),
    [(0, 0, 0), (101, 0, 3), (107, 0, 7), (108, 0, 22), (0, 23, 24), (125, 0, None)],
)
def test_by_time(segment_list: SegmentList, timestamp: int, start: int, base: int | None) -> None:
    found = segment_list.locate_timestamp(timestamp, start)
    assert (None if found is None else found[1].base_offset) == base


def test_the_greatest_time(segment_list: SegmentList) -> None:
    found = segment_list.locate_max_timestamp()
    assert found is not None and found[1].base_offset == 24
    assert SegmentList([next(iter(segment_list.remove(1)))]).locate_max_timestamp() is None


def test_removing_and_adding(segment_list: SegmentList, disk: Disk) -> None:
    removed = segment_list.remove(1)
    assert [segment.base_offset for segment in removed] == [10, 20]
    assert len(segment_list) == 1 and segment_list.active.base_offset == 0
    renamed = mark_deleted(disk, reversed(removed))
    assert renamed[0].startswith("/d/00000000000000000020."), "in the order given"
    assert all(path.endswith(".deleted") for path in renamed)
    names = disk.fs.list_dir("/d")
    assert sorted(path.removeprefix("/d/") for path in renamed) == [
        name for name in names if name.endswith(".deleted")
    ]
    segment_list.append(Segment.create(disk, "/d", 8, logs.settings()))
    assert segment_list.floor(100).base_offset == 8


@pytest.mark.parametrize(
    ("time_ms", "limit", "bases"),
    [
        (None, 9, [20, 10, 0]),
        (None, 2, [20, 10]),
        (None, 0, []),
        (7, 9, [20, 10, 0]),
        (6, 9, [10, 0]),
        (4, 9, [0]),
        (4, 1, [0]),
        (2, 9, []),
    ],
)
def test_where_segments_begin_that_were_written_by_then(
    segment_list: SegmentList,
    monkeypatch: pytest.MonkeyPatch,
    time_ms: int | None,
    limit: int,
    bases: list[int],
) -> None:
    """One written late hides none of those before it: 0 at 3, 10 at 5, 20 at 7 ms."""
    written = {0: 3, 10: 5, 20: 7}
    monkeypatch.setattr(Segment, "written_ms", lambda segment: written[segment.base_offset])
    assert segment_list.bases_before(time_ms, limit) == bases

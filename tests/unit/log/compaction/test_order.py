"""The messages to and from a compaction process survive pickling."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kavka.log.compaction.order import CompactionResult, Progress, Replacement
from kavka.log.errors import CorruptLogError
from kavka.log.fs import OsFs
from kavka.log.memfs import MemFs
from support import compaction, logs


def test_an_order_gets_through_a_pipe() -> None:
    log = logs.Broker(MemFs(), log_settings=logs.settings(segment_bytes=1000)).log()
    logs.append(log, logs.batch([b"x"], producer=logs.Producer(7, 0, 0)))
    logs.fill(log, 30)
    order = compaction.order(log)
    assert list(order.producers.producer_ids) == [7]
    assert len(order.segments) > 3
    assert pickle.loads(pickle.dumps(order)) == order
    assert isinstance(pickle.loads(pickle.dumps(OsFs())), OsFs)


@pytest.mark.parametrize(
    "news",
    [
        Progress("indexing", 3, 5),
        Replacement((0, 7), ((0, 100),)),
        CompactionResult(9, batches_broken=["here"]),
    ],
)
def test_progress_gets_through_a_pipe(news: Any) -> None:
    assert pickle.loads(pickle.dumps(news)) == news


def test_the_error_of_a_damaged_log_gets_through_a_pipe() -> None:
    failure = pickle.loads(pickle.dumps(CorruptLogError("/log/0.log", 17, "it is damp")))
    assert (failure.path, failure.position, failure.code) == ("/log/0.log", 17, failure.code)
    assert failure.message == "/log/0.log has no batch at byte 17: it is damp"

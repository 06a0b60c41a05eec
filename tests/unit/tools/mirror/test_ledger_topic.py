"""What is read of the ledger."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import ledger_topic
from kavka.tools.mirror import report as report_module
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.ledger import (
    Entry,
    TopicIds,
    forgotten_offsets,
    offsets_entry,
    owner_entry,
    topic_entry,
)
from kavka.tools.mirror.ledger_topic import has_successor, read_ledger
from kavka.tools.mirror.offset_map import Chunk, Run
from kavka.tools.mirror.report import Report

FOREIGN = (
    (b"no JSON", b"value"),
    (None, b"value"),
    (b"[]", b"value"),
    (b'["owner"]', b"[]"),
    (b'["topic","t"]', b'{"color":"red"}'),
    (b'["offsets","t",0,0]', b'{"runs":[]}'),
)
"""Records that no mirror writes."""

REPORT = Report(None)
Put = Callable[..., None]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Has the topic hold these records."""

    def put(*entries: Entry) -> None:
        monkeypatch.setattr(ledger_topic, "_entries", lambda *_: iter(entries))

    return put


def test_what_was_written_before_the_session_is_read(put: Put) -> None:
    put(topic_entry("t", TopicIds("a", "b")), owner_entry("me"), owner_entry("other"))
    assert read_ledger({}, "ledger", "me", REPORT).topics == {"t": TopicIds("a", "b")}
    assert has_successor({}, "ledger", "me", REPORT)
    assert not has_successor({}, "ledger", "other", REPORT)


def test_the_epoch_of_the_last_record_is_that_of_the_last_chunk(put: Put) -> None:
    """One that was written without it tells none, whatever the chunks before it say."""
    topic_partition = ("t", 0)
    first, second = Chunk(0, [Run(0, 0, 5)]), Chunk(5, [Run(5, 5, 5)])
    known = [offsets_entry(topic_partition, first, 3), offsets_entry(topic_partition, second, 4)]
    put(*known, owner_entry("me"))
    assert read_ledger({}, "ledger", "me", REPORT).epochs == {topic_partition: 4}
    put(*known, offsets_entry(topic_partition, second), owner_entry("me"))
    assert read_ledger({}, "ledger", "me", REPORT).epochs == {topic_partition: None}
    put(*known, forgotten_offsets(topic_partition, 5), owner_entry("me"))
    assert read_ledger({}, "ledger", "me", REPORT).epochs == {topic_partition: 3}


def test_what_is_not_read_in_a_while_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once something has come it is another while."""
    now_ms, step_ms = 0, report_module.SILENCE_MS // 4
    owner = Message(topic="ledger", partition=0, key=b'["owner"]', value=b'{"session":"other"}')
    reads = iter([[]] * 10 + [[owner]] + [[]] * 3)

    class Target:
        at_end: frozenset[tuple[str, int]] = frozenset()

        def __init__(self, *_: object) -> None: ...

        def take(self, _: object) -> None: ...

        def close(self) -> None: ...

        def read(self) -> list[Message]:
            nonlocal now_ms
            now_ms += step_ms
            return next(reads, [])

    for module in (ledger_topic, report_module):
        monkeypatch.setattr(module, "now_ms", lambda: now_ms)
    monkeypatch.setattr(ledger_topic, "Reader", Target)
    monkeypatch.setattr(ledger_topic, "READ_WITHIN_MS", 14 * step_ms)
    with pytest.raises(Again, match="ledger could not be read within"):
        read_ledger({}, "ledger", "me", REPORT)
    warning = "waits: the target has not given all of ledger within 10 s\n"
    assert capsys.readouterr().err == warning
    monkeypatch.setattr(ledger_topic, "SUCCESSOR_WITHIN_MS", 14 * step_ms)
    with pytest.raises(Again, match="ledger could not be read within"):
        has_successor({}, "ledger", "me", REPORT)
    Target.at_end = frozenset({("ledger", 0)})
    assert has_successor({}, "ledger", "me", REPORT)  # whose entry is not there any more
    assert not capsys.readouterr().err, "most sessions have none"


@pytest.mark.parametrize("entry", FOREIGN)
def test_a_foreign_record_is_said_in_one_sentence(put: Put, entry: Entry) -> None:
    put(entry, owner_entry("me"))
    with pytest.raises(Failed, match="ledger has a record that no mirror has written"):
        read_ledger({}, "ledger", "me", REPORT)

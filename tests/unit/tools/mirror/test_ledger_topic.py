"""What is read of the ledger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import ledger_topic
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

FOREIGN = (
    (b"no JSON", b"value"),
    (None, b"value"),
    (b"[]", b"value"),
    (b'["owner"]', b"[]"),
    (b'["topic","t"]', b'{"color":"red"}'),
    (b'["offsets","t",0,0]', b'{"runs":[]}'),
)
"""Records that no mirror writes."""

Put = Callable[..., None]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Has the topic hold these records."""

    def put(*entries: Entry) -> None:
        monkeypatch.setattr(ledger_topic, "_entries", lambda *_: iter(entries))

    return put


def test_what_was_written_before_the_session_is_read(put: Put) -> None:
    put(topic_entry("t", TopicIds("a", "b")), owner_entry("me"), owner_entry("other"))
    assert read_ledger({}, "ledger", "me").topics == {"t": TopicIds("a", "b")}
    assert has_successor({}, "ledger", "me")
    assert not has_successor({}, "ledger", "other")


def test_the_epoch_of_the_last_record_is_that_of_the_last_chunk(put: Put) -> None:
    """One that was written without it tells none, whatever the chunks before it say."""
    place = ("t", 0)
    first, second = Chunk(0, [Run(0, 0, 5)]), Chunk(5, [Run(5, 5, 5)])
    known = [offsets_entry(place, first, 3), offsets_entry(place, second, 4)]
    put(*known, owner_entry("me"))
    assert read_ledger({}, "ledger", "me").epochs == {place: 4}
    put(*known, offsets_entry(place, second), owner_entry("me"))
    assert read_ledger({}, "ledger", "me").epochs == {place: None}
    put(*known, forgotten_offsets(place, 5), owner_entry("me"))
    assert read_ledger({}, "ledger", "me").epochs == {place: 3}


@pytest.mark.parametrize("entry", FOREIGN)
def test_a_foreign_record_is_said_in_one_sentence(put: Put, entry: Entry) -> None:
    put(entry, owner_entry("me"))
    with pytest.raises(Failed, match="ledger has a record that no mirror has written"):
        read_ledger({}, "ledger", "me")

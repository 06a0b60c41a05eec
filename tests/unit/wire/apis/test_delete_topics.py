"""DeleteTopics: names moved to another field in version 6."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kavka.wire.apis.delete_topics import requested_topics

TOPIC_ID = UUID(int=5)


def test_topics_are_found_in_either_field() -> None:
    older: Any = SimpleNamespace(topic_names=["a", "b"], topics=())
    assert requested_topics(older, 5) == [("a", None), ("b", None)]
    newer: Any = SimpleNamespace(
        topic_names=(),
        topics=[
            SimpleNamespace(name="a", topic_id=None),
            SimpleNamespace(name=None, topic_id=TOPIC_ID),
        ],
    )
    assert requested_topics(newer, 6) == [("a", None), (None, TOPIC_ID)]

"""Metadata: where an error stands."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kavka.wire.apis.metadata import error_response
from kavka.wire.errors import ErrorCode


def test_an_error_for_all_topics_stands_at_the_top() -> None:
    request: Any = SimpleNamespace(topics=None)
    answer = error_response(request, ErrorCode.REBOOTSTRAP_REQUIRED, 13)
    assert (answer.error_code, answer.topics) == (ErrorCode.REBOOTSTRAP_REQUIRED, [])


def test_a_topic_asked_for_by_id_has_an_empty_name() -> None:
    """As Apache Kafka's `MetadataRequest.getErrorResponse`: the field is not nullable before 12."""
    request: Any = SimpleNamespace(topics=[SimpleNamespace(name=None, topic_id=None)])
    answer = error_response(request, ErrorCode.INVALID_REQUEST, 11)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("", 42)]

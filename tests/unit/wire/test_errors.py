"""Codes against kafka-python's table; `tests/java/test_wire_java.py` asks Apache Kafka's own."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import kafka.errors
import pytest
from kafka.errors import BrokerResponseError

from kavka.wire.errors import RETRIABLE, ApiError, ErrorCode, clear_tracebacks

LIBRARY_NAMES = {
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "NO_ERROR": "NONE",
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
}
"""What the library calls otherwise than Apache Kafka."""


def library_codes() -> dict[int, str]:
    found: dict[int, str] = {}
    for _, error_class in inspect.getmembers(kafka.errors, inspect.isclass):
        if not issubclass(error_class, BrokerResponseError):
            continue
        error: Any = error_class
        if error.errno is not None:
            found[error.errno] = LIBRARY_NAMES.get(error.message, error.message)
    return found


def test_codes_are_the_library_s() -> None:
    theirs = library_codes()
    assert len(theirs) > 120
    assert theirs == {code.value: code.name for code in ErrorCode if code.value in theirs}


def test_codes_have_no_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


def test_retriable() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.INVALID_RECORD.retriable
    assert ErrorCode.NONE not in RETRIABLE


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError(ErrorCode.INVALID_RECORD), "INVALID_RECORD"),
        (ApiError(ErrorCode.INVALID_RECORD, "no key"), "INVALID_RECORD: no key"),
    ],
)
def test_the_text_of_an_error(error: ApiError, text: str) -> None:
    assert str(error) == text


def test_an_error_carries_its_code() -> None:
    with pytest.raises(ApiError) as caught:
        raise ApiError(ErrorCode.INVALID_CONFIG, "segment.bytes is too small")
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == "segment.bytes is too small"


def test_tracebacks_of_causes_in_a_cycle_are_cleared() -> None:
    """A failed await that is retried while its error is handled makes such cycles."""
    first, second, third = KeyError(), ValueError(), OSError()
    for error in (first, second, third):
        with contextlib.suppress(KeyError, ValueError, OSError):
            raise error
        assert error.__traceback__ is not None
    first.__cause__, first.__context__ = second, third
    second.__context__ = first
    clear_tracebacks(first)
    assert [error.__traceback__ for error in (first, second, third)] == [None] * 3

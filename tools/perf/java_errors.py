"""The names that Java's clients give to librdkafka's errors."""

from __future__ import annotations

from typing import Any, Final

from kavka.tools.admin.java_errors import PACKAGE, class_name
from kavka.wire.errors import ErrorCode

INVALID_RECORD: Final = "class org.apache.kafka.common.InvalidRecordException"
"""The only one of another package."""


def java_class(error: Any) -> str:
    """Of the exception that a KafkaError is in Java; a timeout for what the client gave up."""
    code = error.code()
    if code < 0:
        is_size = error.name() == "MSG_SIZE_TOO_LARGE"
        code = ErrorCode.MESSAGE_TOO_LARGE if is_size else ErrorCode.REQUEST_TIMED_OUT
    if code == ErrorCode.INVALID_RECORD:
        return INVALID_RECORD
    return f"class {PACKAGE}.{class_name(ErrorCode(code))}"

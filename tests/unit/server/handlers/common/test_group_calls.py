"""Many questions for one answer; with brokers they are in the handlers' tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.handlers.common.group_calls import check_group
from kavka.wire.errors import ApiError, ErrorCode


class _Authorizer:
    def __init__(self, *allowed: tuple[Operation, str]) -> None:
        self._allowed = allowed

    def allows(self, _: object, operation: Operation, kind: ResourceType, name: str) -> bool:
        return kind is ResourceType.GROUP and (operation, name) in self._allowed


def error_code(operation: Operation, group_id: str) -> ErrorCode | None:
    authorizer = _Authorizer((Operation.READ, "mine"), (Operation.READ, ""))
    broker: Any = SimpleNamespace(authorizer=authorizer)
    context: Any = None
    try:
        check_group(broker, context, operation, group_id)
    except ApiError as failure:
        return failure.code
    return None


def test_a_group_must_be_allowed_and_have_a_name() -> None:
    assert error_code(Operation.READ, "mine") is None
    assert error_code(Operation.DELETE, "mine") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert error_code(Operation.READ, "other") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert error_code(Operation.READ, "") == ErrorCode.INVALID_GROUP_ID

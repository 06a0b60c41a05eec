"""How a client learns of a failure of the coordination service."""

from __future__ import annotations

from kavka.server.coordination.failures import coordination_failed
from kavka.wire.errors import ErrorCode
from kavka.zktree.api import SessionExpired


def test_the_failure_has_its_name_but_not_its_path() -> None:
    error = coordination_failed(SessionExpired("/brokers"))
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error.message == "The coordination service failed: SessionExpired"

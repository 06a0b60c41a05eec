"""How a client learns of a failure of the coordination service."""

from __future__ import annotations

import pytest

from kavka.server.coordination.failures import coordination_failed
from kavka.wire.errors import ErrorCode
from kavka.zktree.api import ConnectionLost, CoordinationError, Overloaded, SessionExpired


def test_the_failure_has_its_name_but_not_its_path() -> None:
    error = coordination_failed(Overloaded("/brokers"))
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error.message == "The coordination service failed: Overloaded"


@pytest.mark.parametrize("failure", [ConnectionLost("/brokers"), SessionExpired("/brokers")])
def test_a_client_may_ask_again_when_the_session_has_ended(failure: CoordinationError) -> None:
    error = coordination_failed(failure)
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert error.message == "The session with the coordination service ended."

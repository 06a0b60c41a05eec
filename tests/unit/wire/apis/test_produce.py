"""Produce: who waits for an answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kavka.wire.apis.produce import expects_response


@pytest.mark.parametrize(("acks", "expected"), [(0, False), (1, True), (-1, True), (7, True)])
def test_without_acks_there_is_no_answer(acks: int, expected: bool) -> None:
    assert expects_response(SimpleNamespace(acks=acks)) is expected

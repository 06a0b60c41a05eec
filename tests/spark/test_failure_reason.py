from __future__ import annotations

import traceback

import pytest

from kavka.spark_it.running import REASON_CHARACTERS_MAX, reason


def fail() -> None:
    raise ValueError("the cause")


def test_the_reason_is_not_cut_off_behind_a_traceback() -> None:
    with pytest.raises(ValueError) as caught:
        fail()
    head, *frames, last = traceback.format_exception(caught.value)
    message = "".join(["the query failed: ", head, *frames * 50, last])
    assert len(message) > REASON_CHARACTERS_MAX
    assert reason(Exception(message)).split("\n") == [
        f"the query failed: {head}".rstrip(),
        *last.split("\n"),
    ]

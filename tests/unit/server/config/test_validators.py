"""Messages are Kafka's; those that a client can see are judged in test_topics too."""

from __future__ import annotations

import pytest

from kavka.server.config.validators import (
    AtLeast,
    Between,
    Items,
    Limit,
    NonEmpty,
    OneOf,
    ThrottledReplicas,
    Validator,
)
from kavka.server.config.value_types import BadValue, Value


@pytest.mark.parametrize(
    ("check", "allowed", "refused"),
    [
        (AtLeast(1), [1, 2], [0, -1]),
        (Between(1, 9), [1, 9], [0, 10]),
        (Between(0, 0.5), [0.0, 0.25, 0.5], [-0.1, 0.51]),
        (Between(1, 9, also=-1), [-1, 1, 9], [0, 10, -2]),
        (Limit(), [1, -1, -7], [0]),
        (OneOf(("a", "b")), ["a", "b"], ["A", "", "a,b"]),
        (OneOf(("a", "b"), any_case=True), ["a", "B"], ["c"]),
        (Items(), [(), ("a",)], [("",), ("a", "")]),
        (Items(may_be_empty=False), [("a", "b")], [(), ("a", "")]),
        (Items(words=("a", "b")), [(), ("a", "b")], [("c",), ("a", "")]),
        (NonEmpty(), ["a"], [""]),
        (ThrottledReplicas(), [(), ("*",), ("0:1", "12:0")], [("*", "*"), ("0",), ("0:-1",)]),
    ],
)
def test_what_is_allowed(check: Validator, allowed: list[Value], refused: list[Value]) -> None:
    for value in [*allowed, None]:
        check.validate("key", value)
    for value in refused:
        with pytest.raises(BadValue, match="key"):
            check.validate("key", value)
    assert str(check)


def test_messages_say_which_end_was_missed() -> None:
    with pytest.raises(BadValue, match="Value must be no more than 9"):
        Between(1, 9).validate("key", 10)
    with pytest.raises(BadValue, match="Value must be at least 1"):
        Between(1, 9).validate("key", 0)

"""The notation of requests and responses in scenario files."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from kavka.compat_tests.raw.codec import schemas
from support.message_text import Names, read, write

T = UUID(int=1 << 100)


@pytest.fixture
def names() -> Names:
    names = Names()
    names.topic("t", T)
    return names


def test_a_request(names: Names) -> None:
    text = 'topics: [a b {configs: [x {value: "1, \\"2\\""}, y {value: null}]}, c], timeout_ms: 5'
    assert read(schemas.schema("CreateTopicsRequest"), text, names) == {
        "topics": [
            {
                "name": "a b",
                "configs": [{"name": "x", "value": '1, "2"'}, {"name": "y", "value": None}],
            },
            {"name": "c"},
        ],
        "timeout_ms": 5,
    }
    text = "topics: [{topic_id: #t}, {topic_id: #7}]"
    assert read(schemas.schema("DeleteTopicsRequest"), text, names) == {
        "topics": [{"topic_id": T}, {"topic_id": UUID(int=7)}]
    }


@pytest.mark.parametrize("text", ["nope: 1", "topics: [a {nope: 1}]", "timeout_ms"])
def test_a_field_that_does_not_exist_or_has_no_value(names: Names, text: str) -> None:
    with pytest.raises(AssertionError, match=r"no field nope|value is missing"):
        read(schemas.schema("CreateTopicsRequest"), text, names)


def test_a_response(names: Names) -> None:
    struct = schemas.schema("DeleteTopicsResponse")

    def response(*responses: dict[str, object]) -> SimpleNamespace:
        return schemas.as_namespace(struct, {"responses": list(responses)})

    assert write(struct, response(), names) == ["ok"]
    found = response({"name": "t", "topic_id": T}, {"name": "u", "error_code": 3})
    line = "responses: [t {topic_id: #t}, u {UNKNOWN_TOPIC_OR_PARTITION}]"
    assert write(struct, found, names) == [line]
    names.hidden.add("topic_id")
    long = response(*({"name": f"{n}" * 40, "error_code": 3} for n in range(2)))
    assert write(struct, long, names) == [
        "responses:",
        f"  {'0' * 40} {{UNKNOWN_TOPIC_OR_PARTITION}}",
        f"  {'1' * 40} {{UNKNOWN_TOPIC_OR_PARTITION}}",
    ]

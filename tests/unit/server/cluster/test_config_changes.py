"""Operations on configs. Apache Kafka's answers to the same are compared by the differential test;
here a simple model says what becomes of the configs that are named and of those that are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.server.cluster.config_changes import (
    Alteration,
    AlterOp,
    ConfigChange,
    ConfigResourceType,
)
from kavka.server.config.table import TOPIC
from kavka.wire.errors import ApiError, ErrorCode

CONFIGS = {"retention.ms": "5", "cleanup.policy": "compact"}
NAMES = ("retention.ms", "flush.ms", "segment.ms", "unknown")
TEXTS = st.text("ab,", max_size=4)


def altered(*changes: ConfigChange, replaces: bool = False) -> dict[str, str]:
    alteration = Alteration(ConfigResourceType.TOPIC, "t", changes, replaces)
    alteration.check_form()
    return alteration.applied(CONFIGS, TOPIC)


@given(st.dictionaries(st.sampled_from(NAMES), st.none() | TEXTS), st.booleans())
def test_set_and_delete(updates: dict[str, str | None], replaces: bool) -> None:
    changes = [
        ConfigChange(name, AlterOp.DELETE if text is None else AlterOp.SET, text)
        for name, text in updates.items()
    ]
    expected = ({} if replaces else CONFIGS) | updates
    found = altered(*changes, replaces=replaces)
    assert found == {name: text for name, text in expected.items() if text is not None}


@pytest.mark.parametrize(
    ("op", "value", "result"),
    [
        (AlterOp.APPEND, "delete", "compact,delete"),
        (AlterOp.APPEND, "delete,compact,delete", "compact,delete"),
        (AlterOp.APPEND, "", "compact,"),
        (AlterOp.APPEND, "delete,,", "compact,delete"),
        (AlterOp.SUBTRACT, "compact", ""),
        (AlterOp.SUBTRACT, "delete", "compact"),
    ],
)
def test_items_of_a_list(op: AlterOp, value: str, result: str) -> None:
    assert altered(ConfigChange("cleanup.policy", op, value))["cleanup.policy"] == result


@pytest.mark.parametrize(
    ("op", "value", "result"),
    [
        (AlterOp.APPEND, "c,b,d,c", "a,b,a,b,a,c,d"),
        (AlterOp.APPEND, "a", "a,b,a,b,a"),
        (AlterOp.SUBTRACT, "a", "b,a,b,a"),
        (AlterOp.SUBTRACT, "b,a,a", "b,a"),
        (AlterOp.SUBTRACT, "b,b,b,c", "a,a,a"),
    ],
)
def test_what_comes_again_in_a_list(op: AlterOp, value: str, result: str) -> None:
    """As with Java's `contains`, `add` and `remove`: what was there twice stays so, and is taken
    away once for each time that it is named."""
    alteration = Alteration(
        ConfigResourceType.TOPIC, "t", [ConfigChange("cleanup.policy", op, value)]
    )
    assert alteration.applied({"cleanup.policy": "a,,b,a,b,a,"}, TOPIC) == {
        "cleanup.policy": result
    }


def test_a_list_that_is_not_set_begins_with_its_default() -> None:
    alteration = Alteration(
        ConfigResourceType.TOPIC, "t", [ConfigChange("cleanup.policy", AlterOp.APPEND, "compact")]
    )
    assert alteration.applied({}, TOPIC) == {"cleanup.policy": "delete,compact"}


@pytest.mark.parametrize("op", [AlterOp.APPEND, AlterOp.SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "no.such"])
def test_only_lists_have_items(op: AlterOp, name: str) -> None:
    with pytest.raises(ApiError) as caught:
        altered(ConfigChange(name, op, "1"))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == f"Can't {op.name} to key {name} because its type is not LIST."


def test_form() -> None:
    twice = [ConfigChange("a", AlterOp.SET, "1"), ConfigChange("a", AlterOp.DELETE, None)]
    with pytest.raises(ApiError, match="duplicate config keys") as caught:
        altered(*twice)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(ApiError, match=r"Null value not supported for : a, c$"):
        altered(
            ConfigChange("a", AlterOp.SET, None),
            ConfigChange("b", AlterOp.DELETE, None),
            ConfigChange("c", 9, None),
        )
    altered(ConfigChange("a", AlterOp.DELETE, None))


def test_operations_that_there_are_not() -> None:
    def has_unknown(*ops: int) -> bool:
        changes = [ConfigChange(str(index), op, "") for index, op in enumerate(ops)]
        return Alteration(ConfigResourceType.TOPIC, "t", changes).has_unknown_op

    assert not has_unknown()
    assert not has_unknown(0, 1, 2, 3)
    assert has_unknown(0, 4)
    assert has_unknown(-1)


LONGEST = "1" * 32_765 + ":1"


def throttled(value: str, op: AlterOp, before: dict[str, str]) -> dict[str, str]:
    change = ConfigChange("leader.replication.throttled.replicas", op, value)
    return Alteration(ConfigResourceType.TOPIC, "t", [change]).applied(before, TOPIC)


def test_how_long_a_value_may_be() -> None:
    """As long as Apache Kafka 4.3.1 takes: the differential test has the same cases."""
    before = throttled(LONGEST, AlterOp.SET, {})
    too_long = (
        (f"1{LONGEST}", AlterOp.SET),
        ("1:1", AlterOp.APPEND),
        ("\N{HONEYBEE}" * 16_384, AlterOp.SET),
    )
    for value, op in too_long:
        with pytest.raises(ApiError, match="maximum value size of 32767 bytes") as caught:
            throttled(value, op, before)
        assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_longer_value_that_is_stored_already_may_stay() -> None:
    """Apache Kafka 3.9 takes longer ones, and Kavka is given its tree."""
    before = throttled(f"1{LONGEST}", AlterOp.DELETE, {}) | {"follower": f"1{LONGEST}"}
    assert throttled("1:1", AlterOp.SET, before)["follower"] == f"1{LONGEST}"

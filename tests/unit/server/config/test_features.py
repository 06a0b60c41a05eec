"""Which levels features may take. Words are those of Apache Kafka 4.3.1, asked by the differential
test; here is what a rule decides."""

from __future__ import annotations

import pytest

from kavka.server.config.features import (
    ABSENT,
    GROUP_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    TRANSACTION_VERSION,
    Update,
    UpgradeType,
    updated,
)
from kavka.wire.errors import ApiError, ErrorCode

UP, DOWN, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
HIGHEST = {name: levels.highest for name, levels in SUPPORTED.items()}
CONTROLLER = 7


def refused(*updates: Update) -> str:
    with pytest.raises(ApiError) as caught:
        updated(HIGHEST, updates, CONTROLLER)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    return caught.value.message or ""


@pytest.mark.parametrize("upgrade_type", [DOWN, UNSAFE])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_down(level: int, upgrade_type: UpgradeType) -> None:
    update = Update(TRANSACTION_VERSION, level, upgrade_type)
    assert updated(HIGHEST, [update], CONTROLLER) == {**HIGHEST, TRANSACTION_VERSION: level}
    assert HIGHEST[TRANSACTION_VERSION] == 2, "what is given stays as it is"


@pytest.mark.parametrize("upgrade_type", [DOWN, UNSAFE])
def test_up_is_no_downgrade(upgrade_type: UpgradeType) -> None:
    low = {**HIGHEST, TRANSACTION_VERSION: 0}
    assert updated(low, [Update(TRANSACTION_VERSION, 1, UP)], CONTROLLER)[TRANSACTION_VERSION] == 1
    with pytest.raises(ApiError, match="Can't downgrade to a newer version"):
        updated(low, [Update(TRANSACTION_VERSION, 1, upgrade_type)], CONTROLLER)


@pytest.mark.parametrize("name", SUPPORTED)
def test_an_upgrade_never_lowers(name: str) -> None:
    below = Update(name, HIGHEST[name] - 1, UP)
    assert "without setting the upgrade type" in refused(below)
    assert updated(HIGHEST, [Update(name, HIGHEST[name], UP)], CONTROLLER) == HIGHEST


@pytest.mark.parametrize("upgrade_type", UpgradeType)
@pytest.mark.parametrize("name", SUPPORTED)
def test_out_of_range(name: str, upgrade_type: UpgradeType) -> None:
    lowest, highest = SUPPORTED[name]
    received = f"Local controller {CONTROLLER} only supports versions {lowest}-{highest}"
    assert received in refused(Update(name, highest + 1, upgrade_type))
    below = refused(Update(name, lowest - 1, upgrade_type))
    assert (received if lowest else "cannot be less than 0") in below


@pytest.mark.parametrize("upgrade_type", [DOWN, UNSAFE])
def test_metadata_are_never_downgraded(upgrade_type: UpgradeType) -> None:
    assert "Unsupported metadata.version downgrade" in refused(
        Update(METADATA_VERSION, 29, upgrade_type)
    )


@pytest.mark.parametrize("upgrade_type", [0, 4, -1, 127])
def test_no_such_way(upgrade_type: int) -> None:
    assert "does not support the given upgrade type" in refused(
        Update(GROUP_VERSION, 1, upgrade_type)
    )


def test_no_such_feature() -> None:
    assert "does not support this feature" in refused(Update("no.such", 1, UP))
    assert "Feature no.such not found." in refused(Update("no.such", 0, DOWN))


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_what_kavka_does_not_have_stays_at_0(name: str) -> None:
    assert updated(HIGHEST, [Update(name, 0, DOWN)], CONTROLLER) == HIGHEST
    assert "does not support this feature" in refused(Update(name, 1, UP))


def test_all_or_none_and_the_last_of_a_feature() -> None:
    low, good = Update(TRANSACTION_VERSION, 1, DOWN), Update(GROUP_VERSION, 0, DOWN)
    found = updated(HIGHEST, [low, good], CONTROLLER)
    assert found == {**HIGHEST, TRANSACTION_VERSION: 1, GROUP_VERSION: 0}
    refused(good, Update(TRANSACTION_VERSION, 3, UP))
    again = updated(HIGHEST, [Update(TRANSACTION_VERSION, 9, UP), low], CONTROLLER)
    assert again[TRANSACTION_VERSION] == 1

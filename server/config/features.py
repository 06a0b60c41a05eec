"""The cluster's features (KIP-584): their supported levels, and the validation of updates.

Pure. Checks and messages are Apache Kafka 4.3's (`FeatureControlManager`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.server.config.transaction_rows import TRANSACTION_VERSION_MAX
from kavka.wire.errors import ApiError, ErrorCode

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_MIN: Final = 7
METADATA_VERSION_LEVEL: Final = 30
"""The level of Apache Kafka 4.3, which Kavka behaves like."""

GROUP_VERSION: Final = "group.version"
GROUP_VERSION_MAX: Final = 1
"""The level with the consumer protocol (KIP-848)."""

TRANSACTION_VERSION: Final = "transaction.version"


class Range(NamedTuple):
    """Supported levels, both ends inclusive."""

    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Range]] = {
    GROUP_VERSION: Range(0, GROUP_VERSION_MAX),
    METADATA_VERSION: Range(METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),
    TRANSACTION_VERSION: Range(0, TRANSACTION_VERSION_MAX),
}

ABSENT: Final = frozenset(
    {
        "eligible.leader.replicas.version",
        "kraft.version",
        "share.version",
        "streams.version",
    }
)
"""Features of Apache Kafka 4.3 that Kavka does not have: they are at level 0 and stay there."""


class UpgradeType(IntEnum):
    """Allowed direction of a change, numbered as on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


UPGRADE_TYPES: Final = frozenset(UpgradeType)


class Update(NamedTuple):
    """An update of one feature; a `how` that is no `UpgradeType` is refused."""

    name: str
    level: int
    how: int


def updated(
    current: Mapping[str, int], updates: Iterable[Update], controller_id: int
) -> dict[str, int]:
    """The levels of all features after `updates`; the last update of a feature is used.

    `current` has a level for every feature of `SUPPORTED`. ApiError INVALID_UPDATE_VERSION.
    """
    levels = dict(current)
    for update in {update.name: update for update in updates}.values():
        _check(update, current.get(update.name, 0), controller_id)
        if update.name in SUPPORTED:
            levels[update.name] = update.level
    return levels


def _check(update: Update, level: int, controller_id: int) -> None:
    if update.how not in UPGRADE_TYPES:
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    _check_supported(update, controller_id)
    upgrades = update.how == UpgradeType.UPGRADE
    if update.level < level and upgrades:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if update.level > level and not upgrades:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if update.name == METADATA_VERSION and update.level < level:
        raise _no_metadata_downgrade(update, level)


def _check_supported(update: Update, controller_id: int) -> None:
    """Check against the supported levels; absent features of Apache Kafka support level 0 only."""
    supported = SUPPORTED.get(update.name)
    controller = f"Local controller {controller_id}"
    if supported is None:
        if update.level > 0:
            raise _invalid(update, f"{controller} does not support this feature.")
        if update.name not in ABSENT:
            raise _invalid(update, f"Feature {update.name} not found.")
    elif not supported.lowest <= update.level <= supported.highest:
        levels = f"{supported.lowest}-{supported.highest}"
        raise _invalid(update, f"{controller} only supports versions {levels}")


def _no_metadata_downgrade(update: Update, level: int) -> ApiError:
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if update.how == UpgradeType.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata "
        "information."
    )
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {level} to {update.level}. {reason}",
    )


def _invalid(update: Update, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )

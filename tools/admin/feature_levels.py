"""The features of Apache Kafka 4.3.1: their levels, and which release sets which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Failed

METADATA: Final = "metadata.version"
LOWEST: Final = 7
LATEST: Final = 30
"""The newest that is stable in 4.3.1."""

_SUFFIXES: Final = {
    "3.3": (3,),
    "3.4": (0,),
    "3.5": (0, 1, 2),
    "3.6": (0, 1, 2),
    "3.7": (0, 1, 2, 3, 4),
    "3.8": (0,),
    "3.9": (0,),
    "4.0": (0, 1, 2, 3),
    "4.1": (0, 1),
    "4.2": (0, 1),
    "4.3": (0,),
    "4.4": (0,),
}
METADATA_VERSIONS: Final[Mapping[int, str]] = dict(
    enumerate(
        (f"{release}-IV{number}" for release, numbers in _SUFFIXES.items() for number in numbers),
        LOWEST,
    )
)
"""The names of metadata.version's levels."""


class Feature(NamedTuple):
    """`since`: for each level the metadata.version from which on it is the default."""

    name: str
    since: tuple[int, ...]
    needs: Mapping[int, int] = {}
    """The metadata.version that a level depends on."""

    def default(self, metadata_level: int) -> int:
        """The level that belongs to a metadata.version."""
        level = 0
        for number, least in enumerate(self.since):
            if least > metadata_level:
                break
            level = number
        return level


FEATURES: Final = (
    Feature("kraft.version", (7, 21)),
    Feature("transaction.version", (7, 24, 24)),
    Feature("group.version", (7, 22)),
    Feature("eligible.leader.replicas.version", (7, 26), {1: 23}),
    Feature("share.version", (7, 28)),
    Feature("streams.version", (7, 29)),
)


def level_name(feature: str, level: int) -> str:
    """A level as it is printed."""
    if feature != METADATA:
        return str(level)
    return METADATA_VERSIONS.get(level, f"UNKNOWN {level}")


def metadata_level(release: str) -> int:
    """That of a release, as 4.0, 4.0.1 or 4.0-IV1. Failed."""
    key = ".".join(release.split(".")[:2])
    levels = {name: level for level, name in METADATA_VERSIONS.items()}
    for level, name in METADATA_VERSIONS.items():
        if level <= LATEST:
            levels[name.partition("-")[0]] = level
    if key not in levels:
        raise Failed(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: "
            f"{', '.join(METADATA_VERSIONS.values())}"
        )
    return levels[key]

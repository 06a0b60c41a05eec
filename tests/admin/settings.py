"""The settings that cells change, and which of a broker's settings and APIs are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kavka.compat_tests.raw.codec import schemas
from kavka.compat_tests.raw.configs import SET_AT_START

BROKER_SETTING: Final = "message.max.bytes"
"""May be changed on one broker and on all."""

READ_ONLY_SETTING: Final = "num.partitions"
LOGGER: Final = "root"


def chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a broker's settings those that are Apache Kafka's and that no test sets."""
    return {
        name: value
        for name, value in settings.items()
        if name not in SET_AT_START and not name.startswith("kavka.")
    }


def served(versions: Mapping[str, Any]) -> dict[str, Any]:
    """Of APIs by name those that Kavka serves."""
    names = {api.name for api in schemas.served_apis()}
    return {name: value for name, value in versions.items() if name in names}

"""The settings that cells change, and which of a broker's settings and APIs are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from support import messages

BROKER_SETTING: Final = "message.max.bytes"
"""May be changed on one broker and on all."""

READ_ONLY_SETTING: Final = "num.partitions"
LOGGER: Final = "root"

GIVEN: Final = frozenset({"DEFAULT_CONFIG", "5"})
"""How clients call the source of a value that nobody has set."""


def chosen(settings: Mapping[str, Any], source: Callable[[Any], Any]) -> dict[str, Any]:
    """Of a broker's settings those that are Apache Kafka's and left at their default."""
    return {
        name: one
        for name, one in settings.items()
        if str(source(one)) in GIVEN and not name.startswith("kavka.")
    }


def served(versions: Mapping[str, Any]) -> dict[str, Any]:
    """Of APIs by name those that Kavka serves."""
    names = {module.API.name for module in messages.api_modules().values()}
    return {name: one for name, one in versions.items() if name in names}

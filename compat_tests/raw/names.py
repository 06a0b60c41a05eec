"""Ids that a broker draws for members of groups, or hands out to producers, named by when a script
first met them."""

from __future__ import annotations

import re
from typing import Any, Final

DRAWN: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|^[A-Za-z0-9_-]{22}$"
)
"""The part of a member's id that is drawn: a UUID behind the client's or the instance's id, or,
in the protocol of KIP-848, one in base 64."""


class Names:
    """The ids of one script, in order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._producers: dict[int, str] = {}

    def learn(self, answer: Any) -> None:
        """Meet the member, or the producer, that an answer is for."""
        if not isinstance(answer, dict):
            return
        member_id, producer_id = answer.get("member_id"), answer.get("producer_id", -1)
        if producer_id >= 0:
            self._producers.setdefault(producer_id, f"<producer {len(self._producers) + 1}>")
        drawn = DRAWN.search(member_id) if isinstance(member_id, str) else None
        if drawn is not None:
            self._names.setdefault(drawn[0], f"<id {len(self._names) + 1}>")

    def named(self, value: Any) -> Any:
        """The same with a name for each id that was met."""
        if isinstance(value, dict):
            named = {key: self.named(item) for key, item in value.items()}
            if "producer_id" in named:
                named["producer_id"] = self._producers.get(
                    named["producer_id"], named["producer_id"]
                )
            return named
        if isinstance(value, list):
            return [self.named(item) for item in value]
        if isinstance(value, str):
            for drawn, name in self._names.items():
                value = value.replace(drawn, name)
        return value

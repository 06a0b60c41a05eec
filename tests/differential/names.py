"""Ids that a broker draws for the members of groups, told by when a script first met them."""

from __future__ import annotations

import re
from typing import Any, Final

DRAWN: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|^[A-Za-z0-9_-]{22}$"
)
"""The part of a member's id that is drawn: a UUID behind the client's or the instance's id, or,
in the protocol of KIP-848, one in base 64."""


class Names:
    """The drawn ids of one script, in order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def learn(self, answer: Any) -> None:
        """Meet the member that an answer is for."""
        member_id = answer.get("member_id") if isinstance(answer, dict) else None
        drawn = DRAWN.search(member_id) if isinstance(member_id, str) else None
        if drawn is not None:
            self._names.setdefault(drawn[0], f"<id {len(self._names) + 1}>")

    def told(self, value: Any) -> Any:
        """The same with a name for each id that was met."""
        if not self._names:
            return value
        if isinstance(value, dict):
            return {key: self.told(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.told(one) for one in value]
        if isinstance(value, str):
            for drawn, name in self._names.items():
                value = value.replace(drawn, name)
        return value

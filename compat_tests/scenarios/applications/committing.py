"""What applications have committed, as anybody can ask it."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.errors import Refused
from kavka.compat_tests.scenario import Trial, becomes

COORDINATOR_CHANGES: Final = (
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
)
"""What a broker answers for a group whose coordinator is about to be there: the first group on a
new broker, for instance."""


async def committed_are(trial: Trial, group: str, count: int) -> None:
    """Wait until a group's offsets are so many records."""
    admin = await trial.reference()

    async def total() -> object:
        try:
            found = await admin.ask("group_offsets", group=group)
        except Refused as refused:
            if refused.name not in COORDINATOR_CHANGES:
                raise
            return refused.name
        return sum(committed["offset"] for committed in found["offsets"])

    await becomes(total, count, "sum of committed offsets")

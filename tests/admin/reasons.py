"""Where a client's results may differ between Kavka and Apache Kafka: the reviewed list.

An entry that no longer occurs fails the test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from admin.run import Cell
from kavka.compat_tests.raw.differences import Difference


@dataclass(frozen=True)
class Reason:
    """Patterns (of the shell) for operation and path; and the two values, where None stands for
    any value. With `without`, a regular expression, they are texts that are the same but
    for what it matches."""

    why: str
    operation: str
    path: str
    kavka: Any = None
    kafka: Any = None
    without: str = ""

    def allows(self, cell: Cell, difference: Difference) -> bool:
        """Whether it is the reason of this difference."""
        return (
            fnmatchcase(cell.operation, self.operation)
            and fnmatchcase(difference.path, self.path)
            and self.kavka in (None, difference.answered)
            and self.kafka in (None, difference.expected)
            and (not self.without or self._same_without(difference))
        )

    def _same_without(self, difference: Difference) -> bool:
        left, right = str(difference.answered), str(difference.expected)
        return re.sub(self.without, "", left) == re.sub(self.without, "", right)


WORD: Final = ""
"""The path of the outcome's word."""

_MIN_ISR: Final = (
    "KRaft with eligible leader replicas (KIP-966) writes `min.insync.replicas` as a setting of "
    "all brokers; Kavka has no KRaft and leaves the default"
)
_NO_FEATURES: Final = "other features are those of KRaft and of what is not served yet"
_NO_RULES: Final = "access control, SCRAM users and quotas are not served yet"

REASONS: Final[Sequence[Reason]] = (
    Reason(_MIN_ISR, "*", "*min.insync.replicas*"),
    Reason(_MIN_ISR, "*", "*", without=r"(?<=Configs: )min\.insync\.replicas=1,?"),
    Reason(_NO_FEATURES, "describe features", "*", kavka="<absent>"),
    Reason(_NO_RULES, "describe access rules", WORD),
    Reason(_NO_RULES, "describe client quotas", WORD, kafka="ok"),
    Reason(_NO_RULES, "describe SCRAM users", WORD, kafka="ok"),
)


def reason_of(cell: Cell, difference: Difference) -> Reason | None:
    """The first reason that allows a difference."""
    return next((reason for reason in REASONS if reason.allows(cell, difference)), None)


def unexplained(cells: Sequence[Cell]) -> list[tuple[Cell, Difference]]:
    """Differences that no reason allows."""
    return [
        (cell, difference)
        for cell in cells
        for difference in cell.differences()
        if reason_of(cell, difference) is None
    ]


def outdated(cells: Sequence[Cell]) -> list[Reason]:
    """Reasons that nothing differs by."""
    used = [reason_of(cell, difference) for cell in cells for difference in cell.differences()]
    return [reason for reason in REASONS if reason not in used]

"""Settings of groups of the classic protocol: sizes, session timeouts and rebalance delay."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Config, Importance
from kavka.server.config.validators import AtLeast, Validator
from kavka.server.config.value_types import Type


def _row(name: str, default: int, check: Validator | None, doc: str) -> Config:
    field = name.replace(".", "_")
    return Config(name, Type.INT, default, doc, check, Importance.MEDIUM, field=field)


CLASSIC_GROUP_ROWS: Final = (
    _row(
        "group.initial.rebalance.delay.ms",
        3000,
        None,
        "How long the first rebalance of a group waits for more members. The wait is extended when "
        "members join, up to the rebalance timeout.",
    ),
    _row(
        "group.max.session.timeout.ms",
        1_800_000,
        None,
        "The longest session timeout that a member may request.",
    ),
    _row(
        "group.max.size",
        2_147_483_647,
        AtLeast(1),
        "How many members one group may have.",
    ),
    _row(
        "group.min.session.timeout.ms",
        6000,
        None,
        "The shortest session timeout that a member may request.",
    ),
)

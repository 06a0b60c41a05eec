"""Settings of committed offsets: retention and the size of their metadata."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Config, Importance
from kavka.server.config.validators import AtLeast, Validator
from kavka.server.config.value_types import Type


def _row(name: str, type_: Type, default: int, check: Validator | None, doc: str) -> Config:
    field = name.replace(".", "_")
    return Config(name, type_, default, doc, check, Importance.HIGH, field=field)


OFFSET_ROWS: Final = (
    _row(
        "offset.metadata.max.bytes",
        Type.INT,
        4096,
        None,
        "The largest metadata of a committed offset.",
    ),
    _row(
        "offsets.retention.check.interval.ms",
        Type.LONG,
        600_000,
        AtLeast(1),
        "Interval of removing expired committed offsets.",
    ),
    _row(
        "offsets.retention.minutes",
        Type.INT,
        10_080,
        AtLeast(1),
        "How long offsets of a group are kept after its last member has left; offsets of topics "
        "that the group no longer subscribes to, or of a group that never had members, are kept "
        "for this time after their last commit (KIP-211). A group without offsets is removed.",
    ),
)

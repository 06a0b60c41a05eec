"""The rows of the broker settings that are defaults of topic settings, such as `log.retention.ms`
for `retention.ms`. `log_defaults` computes a topic's default from their values."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Config, Importance, Mode
from kavka.server.config.topic_rows import TOPIC_ROWS
from kavka.server.config.validators import AtLeast, Limit, Required, Validator
from kavka.server.config.value_types import Type

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

_TOPICS: Final = {row.name: row for row in TOPIC_ROWS}


def _default_of(topic_key: str, name: str, importance: Importance = MEDIUM) -> Config:
    """The row of broker setting `name`, the default of topic setting `topic_key`."""
    topic = _TOPICS[topic_key]
    return Config(
        name,
        topic.type,
        topic.default,
        f"Default of {topic_key} for topics that do not set it.",
        topic.check,
        importance,
        Mode.CLUSTER_WIDE,
        status=topic.status,
        note=topic.note,
    )


def _time_of(topic_key: str, name: str, unit: str, default: int | None, check: Validator) -> Config:
    """As `_default_of`, for a time that has one broker setting per unit (ms, minutes, hours)."""
    weaker = [key for key, _ in _TOPICS[topic_key].fallback]
    others = [key for key in weaker if key != name]
    return _default_of(topic_key, name, HIGH)._replace(
        type=Type.LONG if unit == "milliseconds" else Type.INT,
        default=default,
        check=check,
        doc=f"Default of {topic_key} for topics that do not set it, in {unit}. "
        f"Of {', '.join(weaker)} the first that is set counts."
        if others
        else f"Default of {topic_key} for topics that do not set it.",
        dynamic=Mode.CLUSTER_WIDE if unit == "milliseconds" else Mode.READ_ONLY,
    )


TOPIC_DEFAULT_ROWS: Final = (
    _default_of("cleanup.policy", "log.cleanup.policy"),
    _default_of("compression.gzip.level", "compression.gzip.level"),
    _default_of("compression.lz4.level", "compression.lz4.level"),
    _default_of("compression.type", "compression.type", HIGH),
    _default_of("compression.zstd.level", "compression.zstd.level"),
    _default_of("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _default_of("file.delete.delay.ms", "log.segment.delete.delay.ms", HIGH),
    _default_of("flush.messages", "log.flush.interval.messages", HIGH),
    _time_of("flush.ms", "log.flush.interval.ms", "milliseconds", None, AtLeast(0)),
    _default_of("index.interval.bytes", "log.index.interval.bytes"),
    _default_of("kavka.durability", "kavka.durability"),
    _default_of("local.retention.bytes", "log.local.retention.bytes"),
    _default_of("local.retention.ms", "log.local.retention.ms"),
    _default_of("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _default_of("max.message.bytes", "message.max.bytes", HIGH),
    _default_of("message.downconversion.enable", "log.message.downconversion.enable", LOW)._replace(
        internal=True
    ),
    _default_of("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    _default_of("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _default_of("message.timestamp.type", "log.message.timestamp.type"),
    _default_of("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    _default_of("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    _default_of("min.insync.replicas", "min.insync.replicas", HIGH),
    _default_of("preallocate", "log.preallocate"),
    _default_of("retention.bytes", "log.retention.bytes", HIGH),
    _time_of("retention.ms", "log.retention.ms", "milliseconds", None, Limit()),
    _time_of("retention.ms", "log.retention.minutes", "minutes", None, Limit()),
    _time_of("retention.ms", "log.retention.hours", "hours", 168, Limit()),
    _default_of("segment.bytes", "log.segment.bytes", HIGH),
    _default_of("segment.index.bytes", "log.index.size.max.bytes"),
    _time_of("segment.jitter.ms", "log.roll.jitter.ms", "milliseconds", None, Required(0)),
    _time_of("segment.jitter.ms", "log.roll.jitter.hours", "hours", 0, AtLeast(0)),
    _time_of("segment.ms", "log.roll.ms", "milliseconds", None, Required(1)),
    _time_of("segment.ms", "log.roll.hours", "hours", 168, AtLeast(1)),
    _default_of("unclean.leader.election.enable", "unclean.leader.election.enable", HIGH),
)

"""Which topics are copied, and what the target lacks: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.options import is_whole
from kavka.tools.mirror.ledger import PREFIX

NOT_COPIED: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""Configs that are about the brokers of a cluster."""

LIMIT: Final = "max.message.bytes"
"""As large in the target as in the source at least, wherever it is set there. It may be set to
more, as records are compressed anew, and are larger then perhaps."""

BATCH: Final = "batch.size"
BATCH_BYTES: Final = 1_000_000
"""librdkafka's default."""

_LONGEST: Final = str(2**63 - 1)
FIXED: Final = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LONGEST,
    "message.timestamp.after.max.ms": _LONGEST,
}
"""With these, a target takes every record with the time that it has in the source."""


BROKERS_OWN: Final = ("__consumer_offsets", "__share_group_state", "__transaction_state")


def is_never_copied(name: str) -> bool:
    """Whether it is known by its name that brokers or mirrors keep their state in it."""
    return name.startswith(PREFIX) or name in BROKERS_OWN


class Topic(NamedTuple):
    """A topic as its cluster describes it."""

    name: str
    id: str
    partitions: int
    configs: Mapping[str, str]
    """All in effect."""

    own: frozenset[str]
    """The names of those that were set for the topic."""


class Choice(NamedTuple):
    """Which topics the user wants."""

    names: frozenset[str]
    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None

    def takes(self, name: str, *, is_internal: bool) -> bool:
        """Never those in which brokers and mirrors keep their state."""
        if is_internal or is_never_copied(name):
            return False
        if name in self.names:
            return True
        if self.exclude is not None and self.exclude.fullmatch(name):
            return False
        return self.include is not None and self.include.fullmatch(name) is not None


class ConfigChanges(NamedTuple):
    """What to set, and what to leave to the default again."""

    added: Mapping[str, str]
    deleted: Sequence[str]

    def made_to(self, topic: Topic) -> Topic:
        """The topic, once they are made; those that are left to a default keep their values here,
        as nothing tells the default."""
        return topic._replace(configs={**topic.configs, **self.added})


class Plan(NamedTuple):
    """What to do in the target."""

    new: Mapping[str, int]
    """Topics that are missing, with their number of partitions."""

    more: Mapping[str, int]
    """Topics with too few partitions, and how many they shall have."""

    configs: Mapping[str, ConfigChanges]
    unknown: Mapping[str, Sequence[str]]
    """Configs that the target's brokers do not know."""


def plan(source: Mapping[str, Topic], target: Mapping[str, Topic]) -> Plan:
    """Of the topics that are copied; configs of those only that the target has."""
    new = {name: topic.partitions for name, topic in source.items() if name not in target}
    both = {name: (topic, target[name]) for name, topic in source.items() if name in target}
    more = {
        name: topic.partitions
        for name, (topic, there) in both.items()
        if there.partitions < topic.partitions
    }
    changes = {name: _changes(*topics) for name, topics in both.items()}
    unknown = {
        name: sorted(key for key in topic.own - NOT_COPIED if key not in there.configs)
        for name, (topic, there) in both.items()
    }
    return Plan(
        new,
        more,
        {name: change for name, change in changes.items() if change.added or change.deleted},
        {name: some for name, some in unknown.items() if some},
    )


def small_limits(target: Mapping[str, Topic], batch_bytes: int) -> dict[str, int]:
    """The `max.message.bytes` of those of the target's topics for which a full batch of the mirror
    may be too large."""
    limits = {name: int(topic.configs.get(LIMIT, batch_bytes)) for name, topic in target.items()}
    return {name: limit for name, limit in limits.items() if limit < batch_bytes}


def batch_bytes(properties: Mapping[str, str]) -> int:
    """Of a full batch, by a producer's properties."""
    text = properties.get(BATCH, "")
    return int(text) if is_whole(text, 32) else BATCH_BYTES


def _changes(topic: Topic, there: Topic) -> ConfigChanges:
    configs = {name: topic.configs[name] for name in topic.own - NOT_COPIED - FIXED.keys()}
    limit, limit_there = (int(side.configs.get(LIMIT, "0")) for side in (topic, there))
    if LIMIT in there.own and limit_there >= limit:
        configs[LIMIT] = there.configs[LIMIT]
    elif limit > limit_there:
        configs[LIMIT] = topic.configs[LIMIT]
    added = {
        name: value
        for name, value in configs.items()
        if name in there.configs and (name not in there.own or there.configs[name] != value)
    }
    added |= {
        name: value
        for name, value in FIXED.items()
        if there.configs.get(name, value) != value  # it has this config, with another value
    }
    deleted = there.own - NOT_COPIED - FIXED.keys() - configs.keys()
    return ConfigChanges(dict(sorted(added.items())), sorted(deleted))

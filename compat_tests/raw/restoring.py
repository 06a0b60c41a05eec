"""Leaving a broker as it was: its settings, its features, and nothing made for cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kavka.compat_tests.raw.case import Facts
from kavka.compat_tests.raw.configs import (
    BROKER,
    DELETE,
    LOGGER,
    SET,
    Change,
    described_resource,
    resource,
)
from kavka.compat_tests.raw.link import Link, answer_of
from kavka.compat_tests.raw.waiting import NotInTime, eventually

AT_ONCE: Final = 100
"""Topics, or groups, of a request."""

DESCRIBE: Final = ("DescribeConfigs", 1)
ALTER: Final = ("IncrementalAlterConfigs", 0)
FEATURES: Final = ("ApiVersions", 3)
UPDATE: Final = ("UpdateFeatures", 1)
METADATA: Final = ("Metadata", 1)
DELETE_TOPICS: Final = ("DeleteTopics", 3)
LIST_GROUPS: Final = ("ListGroups", 1)
DELETE_GROUPS: Final = ("DeleteGroups", 0)

OF_BROKER: Final = 2
OF_ALL_BROKERS: Final = 3
OF_LOGGER: Final = 6
"""Sources of values that were set while the broker ran."""

UPGRADE: Final = 1
UNSAFE_DOWNGRADE: Final = 3
TIMEOUT_MS: Final = 30_000
GONE_WITHIN_S: Final = 30.0
POLL_S: Final = 0.2

NAMES_OF_CASES: Final = frozenset({"x" * 249})
"""Topics that cases make under names without the prefix of the run."""

Place = tuple[int, str, str]
"""Kind and name of a resource, and one of its configs."""


@dataclass(frozen=True)
class Before:
    """What cases may change of the whole broker."""

    configs: Mapping[Place, str | None]
    features: Mapping[str, int]


class Caretaker:
    """Asks one broker how it is, and brings it back."""

    def __init__(self, link: Link, facts: Facts) -> None:
        self._link = link
        self._facts = facts

    def before(self) -> Before:
        """How the broker is."""
        return Before(self._configs(), self._features())

    def restore(self, before: Before) -> None:
        """Make it so again, as far as the broker lets that be done."""
        now = self._configs()
        for place in {**before.configs, **now}:
            kind, name, key = place
            old = before.configs.get(place)
            if place not in before.configs:
                if kind == LOGGER:
                    continue  # loggers come when they are first used
                change = Change(key, DELETE, None)
            elif old is None or now.get(place) == old:
                continue  # a secret, or as it was
            else:
                change = Change(key, SET, old)
            self._ask(ALTER, resources=[resource(kind, name, change)], validate_only=False)
        self._restore_features(before.features)

    def _restore_features(self, before: Mapping[str, int]) -> None:
        now = self._features()
        updates = [
            {
                "feature": name,
                "max_version_level": before.get(name, 0),
                "upgrade_type": UPGRADE
                if before.get(name, 0) > now.get(name, 0)
                else UNSAFE_DOWNGRADE,
            }
            for name in {**before, **now}
            if before.get(name, 0) != now.get(name, 0)
        ]
        if updates:
            self._ask(UPDATE, timeout_ms=TIMEOUT_MS, feature_updates=updates, validate_only=False)

    def _configs(self) -> dict[Place, str | None]:
        """What was set while the broker ran; a secret's value is None."""
        own = str(self._facts.broker_id)
        found: dict[Place, str | None] = {}
        for kind, name, source in (
            (BROKER, own, OF_BROKER),
            (BROKER, "", OF_ALL_BROKERS),
            (LOGGER, own, OF_LOGGER),
        ):
            answer = self._ask(
                DESCRIBE, resources=[described_resource(kind, name)], include_synonyms=False
            )
            for config in answer["results"][0]["configs"] or () if answer else ():
                if config["config_source"] == source:
                    found[kind, name, config["name"]] = config["value"]
        return found

    def _features(self) -> dict[str, int]:
        answer = self._ask(FEATURES, client_software_name="kavka", client_software_version="1")
        features = answer["finalized_features"] if answer else ()
        return {feature["name"]: feature["max_version_level"] for feature in features}

    # -- what was made

    def topics(self) -> list[str]:
        """The names of all topics."""
        answer = self._ask(METADATA, topics=None)
        return [topic["name"] for topic in answer["topics"]] if answer else []

    def groups(self) -> list[str]:
        """The names of all groups."""
        answer = self._ask(LIST_GROUPS)
        return [group["group_id"] for group in answer["groups"]] if answer else []

    def clear(self) -> None:
        """Delete the topics and groups of this run, and wait until the topics are gone."""

        def gone() -> bool:
            left = self._of_run(self.topics())
            for names in _parts(left):
                self._ask(DELETE_TOPICS, topic_names=names, timeout_ms=TIMEOUT_MS)
            return not left

        with suppress(NotInTime):
            eventually(gone, within_s=GONE_WITHIN_S, goal="the topics are gone", poll_s=POLL_S)
        for names in _parts(self._of_run(self.groups())):
            self._ask(DELETE_GROUPS, groups_names=names)

    def _of_run(self, names: Iterable[str]) -> list[str]:
        facts = self._facts
        return [
            name
            for name in names
            if name.startswith(facts.prefix) or name in NAMES_OF_CASES - facts.others
        ]

    def _ask(self, api: tuple[str, int], **fields: Any) -> Any:
        """The answer; None where there is none."""
        if not self._facts.offers(*api):
            return None
        return answer_of(self._link, api, **fields)


def _parts(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE))

"""The entries of DescribeConfigs for topics, brokers, groups and subscriptions, from the config
table.

Values, sources and synonyms follow Apache Kafka's rules (its `ConfigHelper`), including an odd one:
of a setting with several names, the synonyms are listed only from the first one with the setting's
own name. Tested against recorded responses of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import NamedTuple

from kavka.server.config.dynamic_rules import effective_given
from kavka.server.config.log_defaults import topic_default
from kavka.server.config.other_resource_rows import CLIENT_METRICS, GROUP
from kavka.server.config.rows import Config, Mode, Scope
from kavka.server.config.settings import BrokerSettings
from kavka.server.config.table import (
    TOPIC,
    base_name,
    broker_row,
    broker_rows,
    broker_synonyms,
)
from kavka.server.config.value_types import Type, Value, to_text


class Source(IntEnum):
    """Where a value comes from, numbered as on the wire (`config_source`)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A name and source that sets the value, unless one before it does. No value: null."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """One setting of a resource. The value is None for null and if it is sensitive."""

    name: str
    value: str | None
    read_only: bool
    source: Source
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    """In decreasing precedence."""
    type: Type
    documentation: str


def topic_entries(
    settings: BrokerSettings,
    configs: Mapping[str, str],
    *,
    names: Collection[str] | None = None,
) -> list[ConfigEntry]:
    """Entries of a topic with `configs` of its own, by name; only those of `names` if given."""
    values = _parsed(_effective(settings))
    shown = {row.name for row in TOPIC.values() if not row.internal}.union(configs)
    return [_topic_entry(name, configs, values, settings) for name in _chosen(shown, names)]


def default_entries(
    rows: Mapping[str, Config], settings: BrokerSettings, *, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Entries of a resource without configs of its own, by name; only those of `names` if given."""
    values = _parsed(_effective(settings))
    return [_default_entry(rows[name], values, settings) for name in _chosen(rows, names)]


def group_entries(
    settings: BrokerSettings,
    configs: Mapping[str, str],
    *,
    names: Collection[str] | None = None,
) -> list[ConfigEntry]:
    """Entries of a group with `configs` of its own, by name; only those of `names` if given."""
    defaults = default_entries(GROUP, settings, names=names)
    return _with_own(GROUP, Source.GROUP, defaults, configs)


def subscription_entries(
    settings: BrokerSettings,
    configs: Mapping[str, str],
    *,
    names: Collection[str] | None = None,
) -> list[ConfigEntry]:
    """The same for a client metrics subscription."""
    defaults = default_entries(CLIENT_METRICS, settings, names=names)
    return _with_own(CLIENT_METRICS, Source.CLIENT_METRICS, defaults, configs)


def _with_own(
    rows: Mapping[str, Config],
    source: Source,
    defaults: Iterable[ConfigEntry],
    configs: Mapping[str, str],
) -> list[ConfigEntry]:
    entries = []
    for entry in defaults:
        text = configs.get(entry.name)
        if text is not None:
            row = rows[entry.name]
            own = Synonym(entry.name, to_text(row.parse(text)), source)
            entry = _entry(entry.name, row, own.value, False, [own, *entry.synonyms])
        entries.append(entry)
    return entries


def broker_entries(
    settings: BrokerSettings, *, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Entries of this broker, by name; only those of `names` if given. One takes 30 us."""
    texts = _effective(settings)
    shown = {row.name for row in broker_rows() if not row.internal}.union(texts)
    for name in _chosen(shown, names):
        yield _broker_entry(name, _parsed_text(name, texts), _layers(name, settings))


def broker_default_entries(
    settings: BrokerSettings, *, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The cluster-wide dynamic configs, by name, with unparsed values."""
    default = settings.dynamic.default
    return [
        _broker_entry(name, default[name], [(Source.DYNAMIC_DEFAULT_BROKER, {name: default[name]})])
        for name in _chosen(default, names)
    ]


def _chosen(shown: Iterable[str], names: Collection[str] | None) -> list[str]:
    # An empty list means every name, like null.
    return sorted(set(names).intersection(shown) if names else shown)


def _effective(settings: BrokerSettings) -> dict[str, str]:
    """The configs in force as texts, by key."""
    given = effective_given(settings.given, settings.dynamic)
    return {key: setting.value for key, setting in given.items()}


def _parsed(texts: Mapping[str, str]) -> dict[str, Value]:
    rows = ((broker_row(key), text) for key, text in texts.items())
    return {row.name: row.parse(text) for row, text in rows if row is not None}


def _parsed_text(name: str, texts: Mapping[str, str]) -> str | None:
    """The text of the value in force, normalized; of an unknown setting unchanged."""
    row = broker_row(base_name(name))
    text = texts.get(name)
    if row is None or row.name != name or row.sensitive:
        return text
    return to_text(row.default if text is None else row.parse(text))


def _layers(name: str, settings: BrokerSettings) -> list[tuple[Source, Mapping[str, str]]]:
    """The config layers with values of the synonyms of `name`, in decreasing precedence."""
    static: dict[str, str] = {}
    default: dict[str, str] = {}
    for key in broker_synonyms(name):
        row = broker_row(key)
        if key in settings.given:
            static[key] = settings.given[key].value
        if row is None or (row.internal and row.dynamic is not Mode.READ_ONLY):
            continue  # replication throttles have no default in Apache Kafka
        if (text := to_text(row.default)) is not None:
            default[key] = text
    return [
        (Source.DYNAMIC_BROKER, settings.dynamic.broker),
        (Source.DYNAMIC_DEFAULT_BROKER, settings.dynamic.default),
        (Source.STATIC_BROKER, static),
        (Source.DEFAULT, default),
    ]


def _synonyms(
    name: str, layers: Iterable[tuple[Source, Mapping[str, str]]], sensitive: bool
) -> list[Synonym]:
    found = [
        Synonym(key, None if sensitive else layer[key], source)
        for source, layer in layers
        for key in broker_synonyms(name)
        if key in layer
    ]
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _broker_entry(
    name: str, text: str | None, layers: list[tuple[Source, Mapping[str, str]]]
) -> ConfigEntry:
    row = broker_row(base_name(name))
    read_only = row is None or row.name != name or row.dynamic is Mode.READ_ONLY
    synonyms = _synonyms(name, layers, _sensitive(row))
    return _entry(name, row, text, read_only, synonyms)


def _topic_entry(
    name: str,
    configs: Mapping[str, str],
    values: Mapping[str, Value],
    settings: BrokerSettings,
) -> ConfigEntry:
    row = TOPIC.get(name)
    text = configs.get(name)
    synonyms: list[Synonym] = []
    if row is not None:
        text = to_text(topic_default(row, values) if text is None else row.parse(text))
        if row.fallback:
            key = row.fallback[0][0]
            synonyms = _synonyms(key, _layers(key, settings), row.sensitive)
    if name in configs:
        own = Synonym(name, None if _sensitive(row) else text, Source.TOPIC)
        synonyms = [own, *synonyms]
    return _entry(name, row, text, False, synonyms)


def _default_entry(
    row: Config, values: Mapping[str, Value], settings: BrokerSettings
) -> ConfigEntry:
    text = to_text(topic_default(row, values))
    synonyms: list[Synonym] = []
    if row.fallback:
        key = row.fallback[0][0]
        synonyms = _synonyms(key, _layers(key, settings), row.sensitive)
    elif row.scope is Scope.GROUP:
        synonyms = [Synonym(row.name, text, Source.DEFAULT)]
    return _entry(row.name, row, text, False, synonyms)


def _sensitive(row: Config | None) -> bool:
    """Unknown settings count as sensitive: they may be passwords."""
    return row is None or row.sensitive


def _entry(
    name: str, row: Config | None, text: str | None, read_only: bool, synonyms: list[Synonym]
) -> ConfigEntry:
    return ConfigEntry(
        name,
        None if _sensitive(row) else text,
        read_only,
        synonyms[0].source if synonyms else Source.DEFAULT,
        _sensitive(row),
        tuple(synonyms),
        row.type if row is not None else Type.UNKNOWN,
        row.explanation if row is not None else "",
    )

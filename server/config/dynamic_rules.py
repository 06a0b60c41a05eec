"""Dynamic broker configs (KIP-226): how they override static ones, and their validation.

There are two layers: cluster-wide defaults, and above them the configs of one broker. Checks, their
order, and messages that clients see are Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kavka.server.config.address_limits import OF_LISTENERS
from kavka.server.config.rows import Config, Mode, Status
from kavka.server.config.sources import Given
from kavka.server.config.table import base_name, broker_row, broker_synonyms
from kavka.server.config.value_types import BadValue, Type, Value

DYNAMIC_ORIGIN: Final = "set while running"

_PER_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Certificates can be changed for one listener, never for all of them by one setting."""

_FOR_ALL_BROKERS: Final = frozenset({*OF_LISTENERS, "num.network.threads"})
"""Per-listener settings that can also be cluster-wide."""


_OF_SECURE_LISTENERS: Final = ("ssl.", "sasl.")
"""Name prefixes of settings that apply only to listeners with TLS or SASL."""

CONFIGS_MAX: Final = 1000
"""Configs of one topic or broker. All are parsed, on the loop, whenever one changes, and a broker
accepts any name."""

CONFIGS_CHARACTERS_MAX: Final = 1_000_000
"""Names and values of a resource together; as much as ZooKeeper's default limit of a node."""

VALUE_UNITS_MAX: Final = 32_767
"""Apache Kafka's limit of one value, in UTF-16 code units."""


class Unsupported(BadValue):
    """A value that Apache Kafka accepts and Kavka can't honour."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Dynamic configs: of this broker, and cluster-wide defaults."""

    broker: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    """Finalized feature levels that were set, by name (KIP-584)."""

    def has(self, key: str) -> bool:
        """Whether a setting has a dynamic value."""
        return key in self.broker or key in self.default


NO_DYNAMIC_CONFIGS: Final = Dynamic()


def effective_given(given: Mapping[str, Given], dynamic: Dynamic) -> dict[str, Given]:
    """The values in force, by key: a dynamic value also overrides its synonyms."""
    merged = dict(given)
    for layer in (dynamic.default, dynamic.broker):
        for key, text in layer.items():
            if base_name(key) == key:  # a listener's value does not override the general one
                for synonym in broker_synonyms(key):
                    merged.pop(synonym, None)
            merged[key] = Given(text, DYNAMIC_ORIGIN)
    return merged


def value_of(given: Mapping[str, Given]) -> Callable[[str], Value]:
    """A function for the value of any setting, honoured or not; KeyError for an unknown one."""

    def value(key: str) -> Value:
        row = broker_row(base_name(key))
        if row is None:
            raise KeyError(key)
        setting = given.get(key)
        return row.default if setting is None else row.parse(setting.value)

    return value


def check_size(configs: Mapping[str, str]) -> None:
    """Raises BadValue if a resource has too many or too long configs."""
    if len(configs) > CONFIGS_MAX:
        raise BadValue(f"There can be no more than {CONFIGS_MAX} configs.")
    if sum(len(key) + len(text) for key, text in configs.items()) > CONFIGS_CHARACTERS_MAX:
        raise BadValue(f"All configs can't have more than {CONFIGS_CHARACTERS_MAX} characters.")


def check_values(values: Iterable[str]) -> None:
    """Raises BadValue if one of these new values is longer than a config may be."""
    for text in values:
        # only characters beyond U+FFFF count twice
        if 2 * len(text) > VALUE_UNITS_MAX and len(text.encode("utf-16-le")) > 2 * VALUE_UNITS_MAX:
            raise BadValue(
                "The configuration value cannot be added because it exceeds the maximum value size "
                f"of {VALUE_UNITS_MAX} bytes."
            )


def check_layer(configs: Mapping[str, str], *, of_one_broker: bool) -> None:
    """Raises BadValue if these can't be dynamic configs of one broker, or cluster-wide.

    Contradictions with other settings are not checked here. Unknown names are accepted, as in
    Apache Kafka, where plug-ins read them.
    """
    _refuse("Cannot update these configs dynamically", filter(_is_fixed, configs))
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        _PER_LISTENER.intersection(configs),
    )
    for key, text in configs.items():
        row = broker_row(base_name(key))
        if row is not None and row.dynamic is not Mode.READ_ONLY:
            row.parse(text)
    if not of_one_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            filter(_is_of_one_broker, configs),
        )
    for key, text in configs.items():
        row = broker_row(base_name(key))
        if row is not None and _is_refused(key, row, text):
            raise Unsupported(f"{key} is not supported: {row.note}.")


def usable(
    configs: Mapping[str, str], *, of_one_broker: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """The usable ones of `configs`, and the reasons why the others can't be applied.

    Configs in the coordination tree may have been written by another broker, tool or version.
    """
    kept: dict[str, str] = {}
    dropped: dict[str, str] = {}
    for key, text in configs.items():
        try:
            check_layer({key: text}, of_one_broker=of_one_broker)
        except BadValue as error:
            row = broker_row(base_name(key))
            shown = row is not None and not row.sensitive
            dropped[key] = str(error) if shown else "its value is not allowed"
        else:
            kept[key] = text
    return kept, dropped


def _refuse(reason: str, names: Iterable[str]) -> None:
    if found := sorted(names):
        raise BadValue(f"{reason}: [{', '.join(found)}]")


def _is_fixed(name: str) -> bool:
    row = broker_row(name)
    return row is not None and row.dynamic is Mode.READ_ONLY


def _is_of_one_broker(name: str) -> bool:
    base = base_name(name)
    if base != name:
        return base not in _FOR_ALL_BROKERS
    row = broker_row(name)
    return row is not None and row.dynamic is Mode.PER_BROKER


def is_accepted_dynamically(row: Config) -> bool:
    """Whether a setting that is refused at a start is accepted dynamically, with a warning.

    Settings of listeners with TLS or SASL have no effect without such a listener, in Apache Kafka
    too, and a running broker gets none, so admin tools may set them in advance. In a static config
    they mean that such a listener is wanted. Secrets are not stored before they can be used, and
    classes are Java's.
    """
    return (
        row.name.startswith(_OF_SECURE_LISTENERS)
        and row.dynamic is not Mode.READ_ONLY
        and row.type not in (Type.CLASS, Type.PASSWORD)
    )


def _is_refused(key: str, row: Config, text: str) -> bool:
    if row.status is not Status.REFUSED or is_accepted_dynamically(row):
        return False
    return row.name != key or row.parse(text) != row.default

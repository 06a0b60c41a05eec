"""Broker settings that are made while the broker runs: how they come on top of those of the start.

There are two layers (KIP-226): defaults of all brokers, and above them what one broker has for
itself. Which settings may change, and to what, is judged here in the order and, where a client
sees them, the words of Apache Kafka.
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

ORIGIN: Final = "set while running"

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
"""What a listener can have for itself and yet as default of all brokers."""


_OF_SECURE_LISTENERS: Final = ("ssl.", "sasl.")
"""How the names of settings begin that count only for listeners with TLS or SASL."""

CONFIGS_MAX: Final = 1000
"""Configs of one topic or broker. All are looked at, on the loop, whenever one changes, and a
broker takes any name."""

CONFIGS_CHARACTERS_MAX: Final = 1_000_000
"""Of the names and values together; as much as ZooKeeper takes in a node by default."""

VALUE_UNITS_MAX: Final = 32_767
"""Of one value, in Java's characters; Apache Kafka's."""


class Unsupported(BadValue):
    """A value that Apache Kafka takes and Kavka can't honour."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """What was set while the cluster ran: for this broker, and as default of all brokers."""

    broker: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    """Of features, by name: those that were set (KIP-584)."""

    def has(self, key: str) -> bool:
        """Whether a setting was set so."""
        return key in self.broker or key in self.default


NOTHING: Final = Dynamic()


def effective_given(given: Mapping[str, Given], dynamic: Dynamic) -> dict[str, Given]:
    """What the broker lives by, by key: what was set last takes away what its synonyms say."""
    merged = dict(given)
    for layer in (dynamic.default, dynamic.broker):
        for key, text in layer.items():
            if base_name(key) == key:  # the value for one listener leaves that for all alone
                for synonym in broker_synonyms(key):
                    merged.pop(synonym, None)
            merged[key] = Given(text, ORIGIN)
    return merged


def value_of(given: Mapping[str, Given]) -> Callable[[str], Value]:
    """What any setting is, honoured or not, by key. KeyError for one that nobody knows."""

    def value(key: str) -> Value:
        row = broker_row(base_name(key))
        if row is None:
            raise KeyError(key)
        one = given.get(key)
        return row.default if one is None else row.parse(one.value)

    return value


def check_size(configs: Mapping[str, str]) -> None:
    """Raises BadValue for more than one topic or broker can have."""
    if len(configs) > CONFIGS_MAX:
        raise BadValue(f"There can be no more than {CONFIGS_MAX} configs.")
    if sum(len(key) + len(text) for key, text in configs.items()) > CONFIGS_CHARACTERS_MAX:
        raise BadValue(f"All configs can't have more than {CONFIGS_CHARACTERS_MAX} characters.")


def check_values(values: Iterable[str]) -> None:
    """Raises BadValue if one of these new values is longer than a config may be."""
    for text in values:
        # only what is beyond U+FFFF counts twice
        if 2 * len(text) > VALUE_UNITS_MAX and len(text.encode("utf-16-le")) > 2 * VALUE_UNITS_MAX:
            raise BadValue(
                "The configuration value cannot be added because it exceeds the maximum value size "
                f"of {VALUE_UNITS_MAX} bytes."
            )


def check_layer(configs: Mapping[str, str], *, of_one_broker: bool) -> None:
    """Raises BadValue if a broker, or all brokers, can't have all these while running.

    What does not fit together with other settings is not seen here. Names that nobody knows are
    taken, as in Apache Kafka, where plug-ins read them.
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
    """(what of `configs` can be in force, why the rest can't).

    Settings can reach the tree by another hand than this broker's, and from another version.
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


def is_taken_while_running(row: Config) -> bool:
    """Whether a setting that a start refuses is taken, with a warning, by a broker that runs.

    What counts only for listeners with TLS or SASL has no effect without one, neither here nor in
    Apache Kafka, and a running broker gets no such listener: so an admin tool that prepares it can
    go on. A start that is given the same means to have one. A secret is not kept before anything
    can use it, and a class is Java's.
    """
    return (
        row.name.startswith(_OF_SECURE_LISTENERS)
        and row.dynamic is not Mode.READ_ONLY
        and row.type not in (Type.CLASS, Type.PASSWORD)
    )


def _is_refused(key: str, row: Config, text: str) -> bool:
    if row.status is not Status.REFUSED or is_taken_while_running(row):
        return False
    return row.name != key or row.parse(text) != row.default

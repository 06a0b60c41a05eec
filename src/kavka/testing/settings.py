"""A test's settings, as keywords and Python values, validated at once. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.config.sources import Given
from kavka.server.config.suggestions import suggestion
from kavka.server.config.table import base_name, broker_row
from kavka.server.config.value_types import to_text

LISTENERS: Final = "listeners"
DEFAULT_LISTENERS: Final = "PLAINTEXT://127.0.0.1:0"
DIRECTORIES: Final = ("log.dirs", "log.dir")


def given_settings(
    settings: Mapping[str, object], keywords: Mapping[str, object]
) -> dict[str, Given]:
    """A test's settings, by Apache Kafka's keys; keywords have underscores for the dots.

    Raises ConfigError for an unknown key, a duplicate one, and a value of an unsupported type
    (allowed are str, bool, int, float, paths, and lists of them). `BrokerSettings.of` validates the
    values.
    """
    given: dict[str, Given] = {}
    for key, value in settings.items():
        given[_known(key, key)] = _given(key, value, "in settings")
    for keyword, value in keywords.items():
        key = _known(keyword.replace("_", "."), keyword)
        if key in given:
            raise ConfigError(f"{key} is given twice: in settings and by keyword {keyword}", key)
        given[key] = _given(key, value, f"keyword {keyword}")
    return given


def broker_settings(given: Mapping[str, Given], directory: str | None = None) -> BrokerSettings:
    """The broker's settings, with the defaults for tests, and with `directory` as its log.dirs.

    Raises ConfigError.
    """
    complete = {LISTENERS: Given(DEFAULT_LISTENERS, "default for tests"), **given}
    if directory is not None:
        if "," in directory:
            raise ConfigError(f"log.dirs is a list: {directory} may have no comma", "log.dirs")
        complete["log.dirs"] = Given(directory, "data_dir")
    return BrokerSettings.of(complete)


def _known(key: str, shown: str) -> str:
    """`key` if there is such a setting; otherwise ConfigError, with a suggestion."""
    if broker_row(base_name(key)) is not None:
        return key
    meant = suggestion(key)
    if shown != key:
        meant = meant.replace(".", "_")
    hint = f"; did you mean {meant}?" if meant else ""
    raise ConfigError(f"{shown}: neither Apache Kafka nor Kavka has such a setting{hint}", key)


def _given(key: str, value: object, origin: str) -> Given:
    return Given(text_of(key, value, origin), origin)


def text_of(key: str, value: object, origin: str) -> str:
    """A setting's value as text; ConfigError, naming `origin`, for an unsupported type."""
    text = _text(value)
    if text is None:
        kind = type(value).__name__
        raise ConfigError(
            f"{key}={value!r} ({origin}): a {kind} is no value of a setting; "
            "give a str, bool, int, float, path, or a list of them",
            key,
        )
    return text


def _text(value: object) -> str | None:
    if isinstance(value, str | bool | int | float):
        return to_text(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, list | tuple):
        return _list_text(value)
    return None


def _list_text(values: Iterable[object]) -> str | None:
    texts: list[str] = []
    for one in values:
        text = None if isinstance(one, list | tuple) else _text(one)
        if text is None:
            return None
        texts.append(text)
    return ",".join(texts)

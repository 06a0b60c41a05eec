"""Merges values from file, environment variables and command line, in increasing precedence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kavka.server.config.problems import ConfigError
from kavka.server.config.properties import PropertiesError, parse_properties

VARIABLE_PREFIX: Final = "KAVKA_"


@dataclass(frozen=True, slots=True)
class Given:
    """A value as text, and where it was given."""

    value: str
    origin: str
    """Where it was given, for error messages; "" for a value copied from another key."""
    removal: str = field(default="", compare=False)
    """How to remove it there, as advice."""
    covers: Given | None = field(default=None, compare=False, repr=False)
    """The value of an earlier place or line for the same key, which this one overrides."""


def gather(
    properties: bytes, path: str, environ: Mapping[str, str], overrides: Sequence[str]
) -> dict[str, Given]:
    """Values by key. Raises ConfigError if the file or an override is malformed.

    `KAVKA_LOG_DIRS` stands for log.dirs; an override is `key=value`.
    """
    given: dict[str, Given] = {}
    try:
        for key, value, line in parse_properties(properties):
            origin = f"{path}, line {line}"
            given[key] = Given(value, origin, "delete this line", given.get(key))
    except PropertiesError as error:
        raise ConfigError(f"{path}: {error}") from error
    for variable in sorted(environ):
        if variable.startswith(VARIABLE_PREFIX):
            key = variable.removeprefix(VARIABLE_PREFIX).lower().replace("_", ".")
            given[key] = Given(
                environ[variable], f"variable {variable}", f"unset {variable}", given.get(key)
            )
    for override in overrides:
        name, equals, value = override.partition("=")
        key = name.strip()
        if not equals or not key:
            raise ConfigError(f"--override {override} is not of the form key=value")
        given[key] = Given(value, "--override", "leave this --override out", given.get(key))
    return given

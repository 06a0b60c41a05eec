"""Puts together what was set where: file, environment variables, command line. The later wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kavka.server.config.problems import ConfigError
from kavka.server.config.properties import PropertiesError, parse_properties

VARIABLE_PREFIX: Final = "KAVKA_"


@dataclass(frozen=True, slots=True)
class Given:
    """One value as it was given."""

    value: str
    origin: str
    """Where, in words for error messages; "" for a value filled in from another key."""
    removal: str = field(default="", compare=False)
    """How to take it away there, as advice."""
    covers: Given | None = field(default=None, compare=False, repr=False)
    """What an earlier place or line says of the same key: it counts when this one is removed."""


def gather(
    properties: bytes, path: str, environ: Mapping[str, str], overrides: Sequence[str]
) -> dict[str, Given]:
    """Values by key. Raises ConfigError if the file or an override is not of the right form.

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

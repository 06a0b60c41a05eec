"""Puts together what was set where: file, environment variables, command line. The later wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.server.config.properties import PropertiesError, parse_properties

VARIABLE_PREFIX: Final = "KAVKA_"


class ConfigError(ValueError):
    """The settings do not allow a start; the message says which key and value, why, and from where.

    `key` is empty where no single key is at fault.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class Given(NamedTuple):
    """One value as it was given."""

    value: str
    origin: str
    """Where, in words for error messages; "" for a value filled in from another key."""


def gather(
    properties: bytes, path: str, environ: Mapping[str, str], overrides: Sequence[str]
) -> dict[str, Given]:
    """Values by key. Raises ConfigError if the file or an override is not of the right form.

    `KAVKA_LOG_DIRS` stands for log.dirs; an override is `key=value`.
    """
    given: dict[str, Given] = {}
    try:
        for key, value, line in parse_properties(properties):
            given[key] = Given(value, f"{path}, line {line}")
    except PropertiesError as error:
        raise ConfigError(f"{path}: {error}") from error
    for variable in sorted(environ):
        if variable.startswith(VARIABLE_PREFIX):
            key = variable.removeprefix(VARIABLE_PREFIX).lower().replace("_", ".")
            given[key] = Given(environ[variable], f"variable {variable}")
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override {override} is not of the form key=value")
        given[key.strip()] = Given(value, "--override")
    return given

"""Errors in settings, collected so that a start reports all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class ConfigError(ValueError):
    """The settings do not allow a start; the message says which key and value, why, and from where.

    `key` is that of the first problem, and empty where no single key is at fault; `problems` has a
    line for each, `warnings` one for each that would not stop a start.
    """

    def __init__(
        self,
        message: str,
        key: str = "",
        problems: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.key = key
        self.problems = tuple(problems) or (message,)
        self.warnings = tuple(warnings)


class Problems:
    """Collects errors that would otherwise be raised one by one."""

    def __init__(self) -> None:
        self._found: list[ConfigError] = []

    def add(self, error: ConfigError) -> None:
        self._found.append(error)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Adds a ConfigError that is raised in the block."""
        try:
            yield
        except ConfigError as error:
            self.add(error)

    def has(self, *keys: str) -> bool:
        """Whether there is an error of one of these keys; further ones need not be reported."""
        return any(error.key in keys for error in self._found)

    def raise_any(self, warnings: Sequence[str] = ()) -> None:
        """Raises ConfigError with all collected errors, if there are any."""
        lines = [line for error in self._found for line in error.problems]
        if not lines:
            return
        message = lines[0]
        if len(lines) > 1:
            message = "\n  ".join([f"{len(lines)} problems in the settings:", *lines])
        raise ConfigError(message, self._found[0].key, lines, warnings)

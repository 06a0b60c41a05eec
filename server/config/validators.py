"""Validators of settings' values, beyond their types.

`check.validate(name, value)` raises BadValue with Kafka's message; `str(check)` says the allowed
range in words, for error messages and the documentation. The ranges are those of Kafka 4.3.1.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

from kavka.server.config.value_types import BadValue, Value, invalid, to_text


class Validator(Protocol):
    """A rule for the values of one setting."""

    def __hash__(self) -> int: ...

    def validate(self, name: str, value: Value) -> None:
        """Raises BadValue if setting `name` may not have `value`."""
        ...


class AtLeast(NamedTuple):
    """A number not below `least`."""

    least: int

    def __str__(self) -> str:
        return f"at least {self.least}"

    def validate(self, name: str, value: Value) -> None:
        if isinstance(value, int | float) and value < self.least:
            raise invalid(name, to_text(value), f"Value must be at least {self.least}")


class Between(NamedTuple):
    """A number from `least` to `most`, both allowed; with `also`, that number too."""

    least: int
    most: float
    also: int | None = None

    def __str__(self) -> str:
        return f"{self.least} to {self.most}" + (f", or {self.also}" if self.also else "")

    def validate(self, name: str, value: Value) -> None:
        if not isinstance(value, int | float) or value == self.also:
            return
        if self.least <= value <= self.most:
            return
        if self.also is not None:
            rule = f"between {self.least} and {self.most} or equal to {self.also}"
        elif value < self.least:
            rule = f"at least {self.least}"
        else:
            rule = f"no more than {self.most}"
        raise invalid(name, to_text(value), f"Value must be {rule}")


class Limit(NamedTuple):
    """A limit that can be switched off: a number above 0, or one below 0 for no limit."""

    def __str__(self) -> str:
        return "at least 1, or -1 for no limit"

    def validate(self, name: str, value: Value) -> None:
        if value == 0:
            rule = "must be unlimited (-1) or, greater than or equal to 1"
            raise BadValue(f"requirement failed: {name} {rule}")


class Required(NamedTuple):
    """As `AtLeast`, with another message to the client; both are Apache Kafka's."""

    least: int

    def __str__(self) -> str:
        return f"at least {self.least}"

    def validate(self, name: str, value: Value) -> None:
        if isinstance(value, int) and value < self.least:
            rule = f"must be greater than or equal to {self.least}"
            raise BadValue(f"requirement failed: {name} {rule}")


class OneOf(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]
    any_case: bool = False

    def __str__(self) -> str:
        return "one of " + ", ".join(self.words) + (" in any case" if self.any_case else "")

    def validate(self, name: str, value: Value) -> None:
        if not isinstance(value, str) or value in self.words:
            return
        if self.any_case and value.upper() in [word.upper() for word in self.words]:
            return
        kind = " (case insensitive)" if self.any_case else ""
        words = ", ".join(self.words)
        raise invalid(name, value, f"String must be one of{kind}: {words}")


class Items(NamedTuple):
    """A list without empty items, limited to `words` if given; an empty one only if allowed."""

    may_be_empty: bool = True
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        size = "may be empty" if self.may_be_empty else "at least one item"
        return f"{size}, of {', '.join(self.words)}" if self.words else size

    def validate(self, name: str, value: Value) -> None:
        if not isinstance(value, tuple):
            return
        if not value and not self.may_be_empty:
            allowed = f"[{', '.join(self.words)}]" if self.words else "any non-empty value"
            raise BadValue(
                f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
            )
        if not self.words and all(value):
            return
        for item in value:
            if not item:
                raise BadValue(f"Configuration '{name}' values must not be empty.")
            if self.words:
                OneOf(self.words).validate(name, item)


_duration: Final = re.compile(
    r"\+?P(?=.)(?:\+?\d+D)?(?:T(?=.)(?:\+?\d+H)?(?:\+?\d+M)?(?:\+?\d+(?:[.,]\d{0,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
).fullmatch
"""The syntax of Java's `Duration.parse`, without negative parts."""


class ShareStart(NamedTuple):
    """Initial offset of a share group: earliest, latest, or by duration (KIP-932)."""

    def __str__(self) -> str:
        return "earliest, latest or by_duration:<PnDTnHnMn.nS>"

    def validate(self, name: str, value: Value) -> None:
        if not isinstance(value, str) or value in ("earliest", "latest"):
            return
        strategy, _, duration = value.partition(":")
        if strategy != "by_duration" or not _duration(duration):
            rule = (
                f"Invalid value `{value}` for configuration {name}. The value must be either "
                "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )
            raise invalid(name, value, rule)


class NonEmpty(NamedTuple):
    """A text with at least one character."""

    def __str__(self) -> str:
        return "not empty"

    def validate(self, name: str, value: Value) -> None:
        if value == "":
            raise invalid(name, value, "String must be non-empty")


class ThrottledReplicas(NamedTuple):
    """`*` for all, or a list of partition:broker."""

    def __str__(self) -> str:
        return "*, or a list of partition:broker"

    def validate(self, name: str, value: Value) -> None:
        if not isinstance(value, tuple) or value == ("*",):
            return
        if not all(map(re.compile(r"\d+:\d+").fullmatch, value)):
            raise invalid(
                name,
                f"[{', '.join(value)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )

"""Settings of clients as command lines give them: files, and words of the form key=value."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from kavka.tools.admin.command import read_client_properties
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Given
from kavka.tools.admin.security import security_of
from kavka.tools.java_numbers import trimmed


def key_values(texts: Iterable[str]) -> dict[str, str]:
    """Words of the form key=value; the value is empty if there is none."""
    pairs = (text.partition("=") for text in texts)
    return {key: value for key, _, value in pairs}


def client_properties(given: Given, file: str, words: str) -> dict[str, str]:
    """Those of a Java client, from a file and from words, the options' names; words win.

    Failed if the file can't be read, or if its security settings make no sense."""
    path = given.text(file)
    found = {} if path is None else read_client_properties(path)
    found |= {name: trimmed(text) for name, text in key_values(given.texts(words)).items()}
    security_of(found)
    return found


def replaced(given: Given, old: str, new: str, warning: str) -> str:
    """The option of the two that counts. Both spellings at once are Misused; the old one is warned
    of on standard output, as Apache Kafka does: `warning` has {old} and {new}."""
    if not given.has(old):
        return new
    if given.has(new):
        raise Misused(f"Options --{new} and --{old} cannot be specified together.".rstrip("."))
    print(warning.format(old=old, new=new))
    return old


def without_effect(names: Iterable[str]) -> None:
    """Say that the client has no such properties."""
    for name in names:
        print(f"The property {name} has no effect here.", file=sys.stderr)

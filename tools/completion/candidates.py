"""What can stand at the place of a word of a command line: read from what --help prints there, so
that it is what the commands really take."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

OPTION: Final = re.compile(r"^\s+(?:-\w(?: \S+)?, )?(--[\w.-]+)", re.MULTILINE)
COMMAND: Final = re.compile(r"^ {2,4}([a-z][\w-]*)(?= |$)", re.MULTILINE)
COMMANDS: Final = re.compile(r"^commands:$(.*)", re.MULTILINE | re.DOTALL)

Help = Callable[[Sequence[str]], str]
"""What `kavka WORD... --help` prints; "" where these words are wrong."""


def candidates(words: Sequence[str], help_of: Help) -> list[str]:
    """What the last word may become, in order. `words`: the command line up to there."""
    name, *before = words
    typed = before.pop() if before else ""
    chosen = [os.path.basename(name).removeprefix("kavka").removeprefix("-"), *before]
    text = help_of(_commands(filter(None, chosen), help_of))
    known = OPTION.findall(text) if typed.startswith("-") else _names(text)
    return sorted({word for word in known if word.startswith(typed)})


def _commands(words: Iterable[str], help_of: Help) -> list[str]:
    """The command, and its sub-command, that are named already."""
    found: list[str] = []
    names = _names(help_of([]))
    for word in words:
        if word in names:
            found.append(word)
            names = _names(help_of(found))
    return found


def _names(text: str) -> list[str]:
    """The commands, or sub-commands, that a help lists."""
    listed = COMMANDS.search(text)
    return COMMAND.findall(listed[1]) if listed else []

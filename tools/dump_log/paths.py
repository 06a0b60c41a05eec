"""Names of files as Java takes them apart."""

from __future__ import annotations

import os
import re

from kavka.tools.admin.errors import Failed
from kavka.tools.java_numbers import parse_long


def as_java(path: str) -> str:
    """A path as Java's File prints it: single slashes, none at the end."""
    short = re.sub("/{2,}", "/", path)
    return short if short == "/" else short.removesuffix("/")


def name_of(path: str) -> str:
    """The last part."""
    return path.rpartition("/")[2]


def absolute(path: str) -> str:
    """From the root on, with any ".." that it has."""
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"


def base_offset(path: str) -> int:
    """What the name of a segment's file begins with. Failed if that is no number."""
    begin = name_of(path).partition(".")[0]
    offset = parse_long(begin)
    if offset is None:
        raise Failed(f'For input string: "{begin}": {path} is not named after an offset')
    return offset


def sibling(path: str, suffix: str) -> str:
    """Another file of the same segment."""
    directory = absolute(path).rpartition("/")[0]
    return f"{directory}/{name_of(path).partition('.')[0]}{suffix}"

"""Where kafka-python's codec is found: in a copy that is Kavka's own, or where the program's is.

A program may need kafka-python 2, whose codec is another, and an environment has one version of it.
Kavka's version may then lie in the directory `codec` among Kavka's own modules, where
`pip install --no-deps --target` has put it, and is looked for there first.
"""

from __future__ import annotations

import re
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from kavka import __path__ as _PACKAGE

WANTED: Final = "kafka-python>=3.0.12,<3.1"
_LEAST: Final = (3, 0, 12)
_BELOW: Final = (3, 1)
_VERSION: Final = re.compile(rb"__version__ *= *['\"](\d+)\.(\d+)(?:\.(\d+))?")

OWN: Final = f"{_PACKAGE[0]}/codec"
"""The directory for a copy of Kavka's own."""


class Place(NamedTuple):
    """A `kafka` package that has the codec."""

    loader: Any
    """Reads its files: `get_data(path)`."""
    root: str


def find() -> Place:
    """The codec that Kavka uses. ImportError, which says what to do, where there is none."""
    for spec in (PathFinder.find_spec("kafka", [OWN]), find_spec("kafka")):
        if spec is None or not spec.submodule_search_locations or spec.loader is None:
            continue
        place = Place(spec.loader, spec.submodule_search_locations[0])
        found = _version(place)
        if _LEAST <= found < _BELOW:
            return place
        raise _missing(f"kafka-python {'.'.join(map(str, found))} in {place.root} is another one")
    raise _missing("it is not installed")


def _version(place: Place) -> tuple[int, ...]:
    try:
        text = place.loader.get_data(f"{place.root}/version.py")
    except OSError:
        return (0,)
    found = _VERSION.search(text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def _missing(why: str) -> ImportError:
    return ImportError(
        f"Kavka needs the codec of {WANTED}: {why}. Install that version, or give Kavka a copy of "
        f"its own beside yours: pip install --no-deps --target '{OWN}' '{WANTED}'",
        name="kafka",
    )

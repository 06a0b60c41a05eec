"""Prints `docs/architecture.md` with its picture of the rooms of `server/` redrawn; `make pages`
puts it there.

The order of the rooms is that of import-linter's contract in pyproject.toml, and the dots are the
imports that there are, those for types among them.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import Final

import grimp

from lint.findings import ROOT

PAGE: Final = ROOT / "docs" / "architecture.md"
CONTRACT: Final = "rooms of the server"
SERVER: Final = "kavka.server"

_BLOCK: Final = re.compile(r"(?<=<!-- rooms -->\n\n).*(?=\n<!-- end of rooms -->)", re.DOTALL)
_DOCSTRING: Final = re.compile(r'\s*"""(.*?)"""', re.DOTALL)


@cache
def import_graph() -> grimp.ImportGraph:
    """Which module imports which, imports for types among them."""
    return grimp.build_graph("kavka", cache_dir=None)


def layers() -> list[list[str]]:
    """The rooms from the top down; those of one layer know nothing of each other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["name"] == CONTRACT:
            return [layer.split(" | ") for layer in contract["layers"]]
    raise LookupError(CONTRACT)


def about(room: str) -> str:
    """What the docstring of the room begins with."""
    place = ROOT / "server" / room
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    docstring = _DOCSTRING.match(path.read_text())
    assert docstring is not None, f"{path} has no docstring"
    return re.split(r"[:;,.]\s", " ".join(docstring[1].split()))[0].rstrip(".")


def picture() -> str:
    """A line a room, with a dot for each room that it imports."""
    graph = import_graph()
    rooms = [room for layer in layers() for room in layer]
    known = {room: f"{SERVER}.{room}" for room in rooms}
    name_width, wide = max(map(len, rooms)), 2 * len(rooms)
    heads = [f"{number:2}" for number in range(1, len(rooms) + 1)]
    margin = " " * (4 + 3 + name_width + 1)
    lines = [margin + "".join(f" {head[place]}" for head in heads).rstrip() for place in (0, 1)]
    for number, room in enumerate(rooms, 1):
        dots = ""
        for other in rooms:
            imports = other != room and graph.direct_import_exists(
                importer=known[room], imported=known[other], as_packages=True
            )
            dots += " ●" if imports else " -" if other == room else "  "
        lines.append(f"    {number:2} {room:{name_width}} {dots:{wide}}  {about(room)}".rstrip())
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page, as it should be."""
    text, count = _BLOCK.subn(lambda _: picture(), PAGE.read_text())
    assert count == 1, f"{PAGE} has no place for the rooms"
    return text


if __name__ == "__main__":
    print(page(), end="")

"""What `meta.properties` says of a log directory, and `kavka storage info`, which prints it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.log import dir_names as names
from kavka.log.fs import FileSystem
from kavka.tools.admin.command import read_properties
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.printing import print_csv

ZOOKEEPER, KRAFT = "0", "1"
"""Versions of `meta.properties`: with ZooKeeper, which Kavka writes too, and with KRaft."""

ID_KEYS: Final = {ZOOKEEPER: "broker.id", KRAFT: "node.id"}
COLUMNS: Final = ("directory", "version", "clusterId", "nodeId", "directoryId", "problem")


class Owner(NamedTuple):
    """Whose a log directory is."""

    version: str
    cluster_id: str
    node_id: str
    directory_id: str

    def properties(self) -> dict[str, str]:
        """As they stand in the file, by name."""
        found = {
            ID_KEYS[self.version]: self.node_id,
            "cluster.id": self.cluster_id,
            "directory.id": self.directory_id,
            "version": self.version,
        }
        return {key: found[key] for key in sorted(found) if found[key]}


def read_owner(fs: FileSystem, directory: str) -> Owner | None:
    """The owner of a log directory; None if it was not formatted. Failed if the file is damaged."""
    path = f"{directory}/{names.META_FILE}"
    if not fs.exists(path):
        return None
    found = read_properties(path)
    version = found.get("version", "")
    if version not in ID_KEYS:
        raise Failed(f"Error loading {path}: it has no version, or one that is not known")
    node_id, cluster_id = found.get(ID_KEYS[version], ""), found.get("cluster.id", "")
    if not node_id.isdecimal():
        raise Failed(f"Error loading {path}: its {ID_KEYS[version]} is no number")
    if not cluster_id:
        raise Failed(f"Error loading {path}: it has no cluster.id")
    return Owner(version, cluster_id, node_id, found.get("directory.id", ""))


class Looked(NamedTuple):
    """What is at the path of a log directory."""

    directory: str
    is_there: bool
    owner: Owner | None
    problem: str


def look(fs: FileSystem, directories: Sequence[str]) -> list[Looked]:
    """All of a broker's, by name."""
    found: list[Looked] = []
    first: Owner | None = None
    for directory in sorted(set(directories)):
        looked = _look(fs, directory, first)
        first = first or looked.owner
        found.append(looked)
    return found


def _look(fs: FileSystem, directory: str, first: Owner | None) -> Looked:
    if not fs.is_dir(directory):
        fault = "is not a directory" if fs.exists(directory) else "does not exist"
        return Looked(directory, False, None, f"{directory} {fault}")
    try:
        owner = read_owner(fs, directory)
    except Failed as failed:
        return Looked(directory, True, None, str(failed))
    problem = ""
    if owner is None:
        problem = f"{directory} is not formatted."
    elif owner.version == KRAFT:
        problem = f"{directory} is formatted for a cluster in KRaft mode: Kavka can't use it."
    elif first is not None and owner.cluster_id != first.cluster_id:
        problem = "Mismatched cluster IDs between storage directories."
    elif first is not None and owner.node_id != first.node_id:
        problem = "Mismatched node IDs between storage directories."
    return Looked(directory, True, owner, problem)


def print_info(found: Sequence[Looked], form: str | None) -> int:
    """The exit code: 1 if there are problems."""
    problems = [looked.problem for looked in found if looked.problem]
    if form in ("json", "csv"):
        rows = [_row(looked) for looked in found]
        if form == "json":
            shown = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
            print(json.dumps({"directories": shown}))
        else:
            print_csv(COLUMNS, rows)
        return 1 if problems else 0
    there = [looked.directory for looked in found if looked.is_there]
    _print_list("Found log directory:", "Found log directories:", there)
    owner = next((looked.owner for looked in found if looked.owner is not None), None)
    if owner is not None:
        print(f"Found metadata: {_map(owner.properties())}\n")
    _print_list("Found problem:", "Found problems:", problems)
    return 1 if problems else 0


def _row(looked: Looked) -> Sequence[str | None]:
    owner = looked.owner
    if owner is None:
        return (looked.directory, None, None, None, None, looked.problem)
    ids = (owner.version, owner.cluster_id, owner.node_id, owner.directory_id)
    return (looked.directory, *ids, looked.problem)


def _print_list(head: str, head_of_many: str, lines: Sequence[str]) -> None:
    if lines:
        print(head if len(lines) == 1 else head_of_many)
        for line in lines:
            print(f"  {line}")
        print()


def _map(properties: Mapping[str, str]) -> str:
    """As Java prints a map."""
    return "{" + ", ".join(f"{key}={value}" for key, value in properties.items()) + "}"

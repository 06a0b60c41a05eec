"""Which log directories belong to this broker, and which of its former ones are missing.

Each directory has an id in its `meta.properties` (KIP-858). The broker also records the ids of its
directories elsewhere, so that the empty mount point of an unmounted disk is not mistaken for a new
directory, in which the partitions would start empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.log.checkpoint import TopicPartition
from kavka.log.dir_names import META_FILE, MetaProperties
from kavka.log.errors import LostDirectoryError, StorageError
from kavka.log.fs import FileSystem
from kavka.log.log_dir import LogDirectory
from kavka.seams import Random

LOST_SETTING: Final = "kavka.lost.log.dirs"
"""The setting that declares a directory as lost; for messages."""


class LostDirectory(NamedTuple):
    """A directory of this broker that was not found in `log.dirs`."""

    id: str
    path: str
    """Its last known path."""
    found: LogDirectory | None
    """The directory now at its path, if that path is in `log.dirs`."""

    @property
    def replaced(self) -> bool:
        """Whether another, usable directory is now at its path."""
        found = self.found
        return found is not None and found.failure is None and found.id is not None

    def explain(self) -> LostDirectoryError:
        """The error: why it can't be used, and what to do."""
        found = self.found
        if found is None:
            problem = "is not in log.dirs any more"
        elif self.replaced:
            problem = f"is not there: {found.path} is another directory, with id {found.id}"
        else:
            problem = "is not there: the directory has no meta.properties with its id"
        return LostDirectoryError(
            f"the log directory that was at {self.path} (directory.id={self.id}) {problem}. "
            "Mount it or put it back, with its meta.properties, and restart. If its "
            "data is lost, and partitions without another replica may start empty, restart with "
            f"{LOST_SETTING}={self.id}"
        )


def common_meta_properties(
    found: Sequence[MetaProperties], paths: Sequence[str]
) -> MetaProperties | None:
    """The common owner of the directories; None if there are none. StorageError if they differ."""
    if any(meta != found[0] for meta in found):
        raise StorageError(
            "the log directories belong to different brokers or clusters: "
            f"{', '.join(paths)}; see their {META_FILE}"
        )
    return found[0] if found else None


class Claims(NamedTuple):
    """The result of `claim_all`."""

    record: dict[str, str]
    """Absolute paths by directory id, of the used and the missing directories."""
    failures: dict[str, OSError]
    """By path, which is not in `log.dirs` for a directory that was removed from there."""


def claim_all(
    directories: Sequence[LogDirectory],
    meta: MetaProperties,
    known: Mapping[str, str],
    given_up: Collection[str],
    fs: FileSystem,
    random: Random,
) -> Claims:
    """See `LogManager.claim`."""
    _check_ids(directories)
    at = {fs.absolute(each.path): each for each in directories}
    claims = Claims({}, {})
    for lost in list(_find_lost(at, known, given_up)):
        claims.record[lost.id] = lost.path
        if lost.found is None:
            claims.failures[lost.path] = lost.explain()
        elif lost.replaced:
            claims.failures[f"{lost.path} (directory.id={lost.id})"] = lost.explain()
        elif lost.found.failure is None:
            lost.found.unlock()
            claims.failures[lost.found.path] = lost.explain()
    for path, directory in at.items():
        if directory.failure is None and directory.path not in claims.failures:
            try:
                directory.claim(meta, random)
            except OSError as failure:
                claims.failures[directory.path] = failure
        if directory.id is not None:
            claims.record[directory.id] = path
    return claims


def _check_ids(directories: Sequence[LogDirectory]) -> None:
    """StorageError when two directories have the same id: one is a copy."""
    paths: dict[str, str] = {}
    for directory in directories:
        if directory.id is not None:
            other = paths.setdefault(directory.id, directory.path)
            if other != directory.path:
                raise StorageError(
                    f"{other} and {directory.path} have the same directory.id {directory.id} in "
                    "their meta.properties: one is a copy of the other; remove it from log.dirs"
                )


def _find_lost(
    directories: Mapping[str, LogDirectory], known: Mapping[str, str], given_up: Collection[str]
) -> Iterator[LostDirectory]:
    """The `known` directories (path by id) whose id is not found in `directories` (by absolute
    path), except those in `given_up`."""
    present = {directory.id for directory in directories.values()}
    for directory_id, path in known.items():
        if directory_id not in present and directory_id not in given_up:
            yield LostDirectory(directory_id, path, directories.get(path))


def find_logs(directories: Sequence[LogDirectory]) -> dict[TopicPartition, None]:
    """The partitions with a log in a directory that has an owner. StorageError for an unexpected
    name; a directory that can't be read is skipped."""
    found: dict[TopicPartition, None] = {}
    for directory in directories:
        if directory.owner is not None:
            try:
                found |= dict.fromkeys(directory.list_content().logs)
            except OSError:
                continue  # it fails when its logs are loaded
    return found

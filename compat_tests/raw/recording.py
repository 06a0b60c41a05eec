"""What Apache Kafka answered to the cases, as files of the package.

There is a file for each API and each release that judges it: `recorded/4.3.1/Fetch.json.gz`. It is
made by `record.py` on two brokers that knew nothing before, with what differs by nature made alike;
and what was not the same both times is noted as unstable and compared with nobody's answer.

Names of topics and groups begin with a prefix that each run draws anew. It always has the same
length, so that it can be replaced in answers, records included.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from secrets import token_hex
from typing import Any, Final
from uuid import UUID

from kavka.compat_tests.raw.case import Facts, Outcome
from kavka.compat_tests.raw.playing import Played

PLACEHOLDER: Final = "raw-######-"
"""Instead of the prefix, in files."""

FORM: Final = 1
"""Of the files."""

BYTES, ID, OUTCOME = "$bytes", "$uuid", "$outcome"
"""Keys of what JSON does not have."""

NO_NUMBER: Final = -(2**63)
NO_TEXT: Final = "\0"
"""What no answer holds: nothing is to be taken for the broker's."""

_FOLDER: Final = "recorded"


def new_prefix() -> str:
    """One that no other run has."""
    return f"raw-{token_hex(3)}-"


@dataclass(frozen=True)
class Unstable:
    """A field, with all below it, that was another one in the second recording."""

    step: int
    path: str

    def covers(self, step: int, path: str) -> bool:
        inside = not self.path or path == self.path or path.startswith(f"{self.path}.")
        return step == self.step and inside


@dataclass(frozen=True)
class Answers:
    """What one case in one version was answered, step by step."""

    played: Sequence[Played]
    unstable: Sequence[Unstable] = field(default_factory=list)

    def is_unstable(self, step: int, path: str) -> bool:
        return any(place.covers(step, path) for place in self.unstable)


Runs = Mapping[tuple[str, int], Answers]
"""By a case's name and the version."""


@dataclass(frozen=True)
class Recording:
    """All of one API by one judge, with the prefix of the run that it is compared with."""

    judge: str
    api: str
    recorded_ms: int
    prefix: str
    runs: Runs

    @property
    def facts(self) -> Facts:
        """Of the broker that answered: what is still of use once answers were made alike."""
        return Facts(
            NO_TEXT,
            NO_NUMBER,
            NO_NUMBER,
            NO_TEXT,
            prefix=self.prefix,
            now_ms=self.recorded_ms,
        )


# -- values as JSON ---------------------------------------------------------------------------


def to_json(value: Any, data: dict[bytes, int]) -> Any:
    """Plain values as JSON has them. Bytes go into `data`, numbered in the order in which they are
    met, since many answers have the same. TypeError for other values."""
    if isinstance(value, dict):
        assert not any(key.startswith("$") for key in value), value
        return {key: to_json(item, data) for key, item in value.items()}
    if isinstance(value, list):
        return [to_json(item, data) for item in value]
    if isinstance(value, bytes):
        return {BYTES: data.setdefault(value, len(data))}
    if isinstance(value, UUID):
        return {ID: str(value)}
    if isinstance(value, Outcome):
        return {OUTCOME: value.name}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"no plain value: {value!r}")


def from_json(value: Any, data: Sequence[bytes]) -> Any:
    """The plain values again."""
    if isinstance(value, list):
        return [from_json(item, data) for item in value]
    if not isinstance(value, dict):
        return value
    if BYTES in value:
        return data[value[BYTES]]
    if ID in value:
        return UUID(value[ID])
    if OUTCOME in value:
        return Outcome[value[OUTCOME]]
    return {key: from_json(item, data) for key, item in value.items()}


def renamed(value: Any, old: str, new: str) -> Any:
    """Plain values with another prefix of the same length."""
    if isinstance(value, dict):
        return {key.replace(old, new): renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, bytes):
        return value.replace(old.encode(), new.encode())
    return value


# -- files ------------------------------------------------------------------------------------


def to_bytes(recording: Recording) -> bytes:
    """A file's content; the same recording gives the same bytes."""
    cases: dict[str, dict[str, Any]] = {}
    data: dict[bytes, int] = {}
    for (case, version), answers in sorted(recording.runs.items()):
        played = renamed([[*result] for result in answers.played], recording.prefix, PLACEHOLDER)
        entry: dict[str, Any] = {"steps": to_json(played, data)}
        if answers.unstable:
            unstable = [[place.step, place.path] for place in answers.unstable]
            entry["unstable"] = renamed(unstable, recording.prefix, PLACEHOLDER)
        cases.setdefault(case, {})[str(version)] = entry
    content = {
        "form": FORM,
        "judge": recording.judge,
        "api": recording.api,
        "recorded_ms": recording.recorded_ms,
        "cases": cases,
        "data": [base64.b64encode(chunk).decode() for chunk in data],
    }
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def from_bytes(data: bytes, prefix: str) -> Recording:
    """A file's content, with the prefix of the run that it is for."""
    content = json.loads(gzip.decompress(data))
    assert content["form"] == FORM, content["form"]
    bytes_met = [base64.b64decode(chunk) for chunk in content["data"]]
    runs = {}
    for case, versions in content["cases"].items():
        for version, entry in versions.items():
            steps = renamed(from_json(entry["steps"], bytes_met), PLACEHOLDER, prefix)
            unstable = renamed(entry.get("unstable", []), PLACEHOLDER, prefix)
            runs[case, int(version)] = Answers(
                [Played(api, answer) for api, answer in steps],
                [Unstable(step, path) for step, path in unstable],
            )
    return Recording(content["judge"], content["api"], content["recorded_ms"], prefix, runs)


def save(recording: Recording, folder: Path) -> int:
    """Write the file into its place below `folder`; its size."""
    path = folder / recording.judge / f"{recording.api}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.write_bytes(to_bytes(recording))


def load(judge: str, api: str, prefix: str) -> Recording | None:
    """The package's own; None where there is none."""
    data = _file(judge, api)
    return None if data is None else from_bytes(data, prefix)


@cache
def _file(judge: str, api: str) -> bytes | None:
    path = resources.files("kavka.compat_tests.raw") / _FOLDER / judge / f"{api}.json.gz"
    return path.read_bytes() if path.is_file() else None

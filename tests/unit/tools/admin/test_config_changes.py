"""What configs are to be added and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.tools.admin.config_changes import Changes, changes
from kavka.tools.admin.configs import OPTIONS
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import parse


def changed(*words: str) -> Changes:
    return changes(parse(words, OPTIONS))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=2", {"a": "1", "b": "2"}),
        (" a = 1 , b\t=\t2 ", {"a": "1", "b": "2"}),
        ("a=[1,2],b=[3]", {"a": "1,2", "b": "3"}),
        ("a=[x=1,y=2],b=", {"a": "x=1,y=2", "b": ""}),
        ("a=1,a=2", {"a": "2"}),
        ("a=1,,", {"a": "1"}),
        (",", {}),
        ("$a.b-c_D9=1", {"$a.b-c_D9": "1"}),
    ],
)
def test_pairs_with_commas_between(text: str, found: dict[str, str]) -> None:
    assert changed("--add-config", text) == Changes(found, [])


@pytest.mark.parametrize("text", ["", "a", "a=1,b", ",a=1", "a=1=2", "a=1,,b=2"])
def test_what_is_no_pair(text: str) -> None:
    with pytest.raises(Misused, match='must be in the format "key=val"'):
        changed("--add-config", text)


def test_names_are_of_few_characters() -> None:
    with pytest.raises(Misused, match="Invalid character found for config key: sp ace"):
        changed("--add-config", "sp ace=1")


def test_names_to_delete() -> None:
    assert changed("--delete-config", "a, b,,c").deleted == ["a", "b", "c"]
    assert changed("--delete-config", "a", "--delete-config", "b").deleted == ["a", "b"]
    assert changed("--delete-config", "").deleted == [""]


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "configs.properties"
    path.write_text("# of a topic\na = [1,2]\nb:2\n")
    assert changed("--add-config-file", str(path)).added == {"a": "[1,2]", "b": "2"}
    with pytest.raises(Failed, match="can't be read"):
        changed("--add-config-file", str(tmp_path / "none"))

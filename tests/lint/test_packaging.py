"""What an installed Kavka consists of: every package, every data file, every pin."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from setuptools import find_packages

from lint.findings import ROOT, python_files

PACKAGE: Final = ROOT / "src" / "kavka"
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONSTRAINTS: Final = (ROOT / "constraints.txt").read_text("utf-8").splitlines()

LINKS: Final = sorted(path for path in PACKAGE.iterdir() if path.is_symlink())


def pin_lines() -> list[str]:
    return [line for line in CONSTRAINTS if line and not line.startswith("#")]


def canonical(name: str) -> str:
    """A distribution's name as the packaging standard compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required_name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return canonical(match[0])


def direct() -> set[str]:
    """Names of what pyproject.toml asks for by itself."""
    project = PROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    lists.append(PROJECT["build-system"]["requires"])
    return {required_name(requirement) for requirements in lists for requirement in requirements}


@pytest.mark.parametrize("link", LINKS, ids=lambda link: str(link.name))
def test_links_lead_to_the_roots_directories_relatively(link: Path) -> None:
    assert link.readlink() == Path("..", "..", link.name)
    assert link.resolve() == ROOT / link.name


def test_environments_are_no_part_of_the_sources(tmp_path: Path) -> None:
    for name in ("own", "env/lib"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "one.py").touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert list(python_files(tmp_path)) == [tmp_path / "own" / "one.py"]


def test_no_directory_of_the_broker_can_be_imported_by_its_bare_name() -> None:
    banned = PROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert sorted(banned) == [link.name for link in LINKS]


def test_every_directory_of_the_broker_is_installed() -> None:
    found = set(find_packages(str(ROOT / "src")))
    tops = [PACKAGE, *(link.resolve() for link in LINKS)]
    for top in tops:
        for path in python_files(top):
            inside = path.parent.relative_to(top).parts
            if "drivers" in inside:  # programs, installed as data
                continue
            package = ".".join(["kavka", *([top.name] if top != PACKAGE else []), *inside])
            assert package in found, f"{path.parent} lacks an __init__.py"


def test_every_data_file_of_the_broker_is_installed() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["kavka"]
    for top in [PACKAGE, *(link.resolve() for link in LINKS)]:
        for path in top.rglob("*"):
            if path.is_file() and path.suffix not in {".py", ".pyc"}:
                assert any(path.match(pattern) for pattern in patterns), path


def test_pins_are_exact_and_name_no_place() -> None:
    for line in pin_lines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+(\s+# .+)?", line), line
    assert not any("://" in line for line in CONSTRAINTS)


def test_every_direct_dependency_is_pinned_with_a_reason() -> None:
    with_reason = {required_name(line) for line in pin_lines() if "#" in line}
    assert with_reason == direct()


def test_no_pin_is_given_twice() -> None:
    names = [required_name(line) for line in pin_lines()]
    assert len(names) == len(set(names))

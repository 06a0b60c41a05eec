"""Where the codec is found, in interpreters of their own; test_install has real environments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kavka.wire.codec import private_copy
from support.broker import kavka_environment


def package(directory: Path, version: str | None) -> Path:
    """A `kafka` of that version, which must not be run."""
    found = directory / "kafka"
    found.mkdir(parents=True)
    (found / "__init__.py").write_text("raise AssertionError('it was imported')\n")
    if version is not None:
        (found / "version.py").write_text(f"__version__ = '{version}'\n")
    return found


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for Kavka's own copy, empty."""
    monkeypatch.setattr(private_copy, "VENDORED_DIRECTORY", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program's own packages are, in front of all others."""
    directory = tmp_path / "program"
    monkeypatch.syspath_prepend(str(directory))
    for name in [name for name in sys.modules if name == "kafka" or name.startswith("kafka.")]:
        monkeypatch.delitem(sys.modules, name)
    return directory


def test_the_installed_codec_is_used_if_its_version_matches(own: Path, program: Path) -> None:
    package(program, "3.0.12")
    assert private_copy.find_codec().root == str(program / "kafka")


def test_an_own_copy_comes_first(own: Path, program: Path) -> None:
    package(program, "2.0.2")
    package(own, "3.0.15")
    assert private_copy.find_codec().root == str(own / "kafka")
    assert b"3.0.15" in private_copy.find_codec().loader.get_data(
        f"{private_copy.find_codec().root}/version.py"
    )


@pytest.mark.parametrize(
    ("version", "named"),
    [("2.0.2", "2.0.2"), ("3.1.0", "3.1.0"), ("3.0.11", "3.0.11"), (None, "0")],
)
def test_another_version_is_refused_with_what_to_do(
    own: Path, program: Path, version: str | None, named: str
) -> None:
    found = package(program, version)
    with pytest.raises(ImportError) as caught:
        private_copy.find_codec()
    assert caught.value.name == "kafka"
    message = str(caught.value)
    assert f"kafka-python {named} in {found} is not supported" in message
    assert f"pip install --no-deps --target '{own}' 'kafka-python>=3.0.12,<3.1'" in message


def test_an_unusable_codec_is_reported_in_one_line_at_the_start(tmp_path: Path) -> None:
    package(tmp_path, "2.0.2")
    environment = kavka_environment()
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "kavka", "start"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("kavka: Kavka needs the codec of kafka-python>=3.0.12,<3.1: ")

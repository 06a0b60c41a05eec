"""The package itself: its names, loaded when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kavka.testing
from support.broker import kavka_environment


def test_importing_it_loads_nothing_of_the_broker() -> None:
    program = (
        "import sys, kavka.testing\n"
        "assert set(kavka.testing.__all__) <= set(dir(kavka.testing))\n"
        "print([name for name in sys.modules if name.startswith('kavka')])\n"
        "from kavka.testing import Broker\n"
        "assert 'kavka.server.instance' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=kavka_environment()
    )
    assert (done.stdout, done.stderr) == ("['kavka', 'kavka.testing']\n", "")


@pytest.mark.parametrize("name", kavka.testing.__all__)
def test_each_name_is_there(name: str) -> None:
    assert getattr(kavka.testing, name).__name__ == name


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Brokre'"):
        kavka.testing.Brokre  # noqa: B018 - asking is what fails

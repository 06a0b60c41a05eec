"""Shells complete command lines of `kavka` by what `kavka completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from kavka.cli import main
from support import java

SHELLS: Final[Mapping[str, str]] = {
    "bash": """
source <(kavka completion bash)
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_kavka
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """
autoload -Uz compinit; compinit -u -D
source <(kavka completion zsh)
[[ $_comps[kavka] = _kavka && $_comps[kavka-topics] = _kavka ]] || exit 1
compadd() {{ print -l -- ${{@:2}} }}
words=({words}); CURRENT=$#words
_kavka
""",
    "fish": """
kavka completion fish | source
complete -C '{line}'
""",
}
"""How each says what it would complete, without a terminal."""

LINES: Final = {
    "kavka reassign-partitions --bootstrap-server localhost:9092 --gen": {"--generate"},
    "kavka features desc": {"describe"},
    "kavka-topics --exclude": {"--exclude-internal"},
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell: str) -> None:
    path = shutil.which(shell) or java.missing(f"{shell} (Debian: apt-get install {shell})")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line, expected in LINES.items():
        script = SHELLS[shell].format(line=line, words=line)
        done = subprocess.run(
            [path, "-c", script], capture_output=True, text=True, env=environment, timeout=60
        )
        assert set(done.stdout.split()) == expected, (line, done)


def test_a_wrong_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "powershell"]) == 1
    assert capsys.readouterr().err == ("the shell is one of bash, zsh, fish, not 'powershell'\n")
    assert main(["completion"]) == 1
    assert main(["completion", "--help"]) == 0
    assert "source <(kavka completion bash)" in capsys.readouterr().out

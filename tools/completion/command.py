"""`kavka completion SHELL` prints what the shell has to read; that calls `kavka completion --words`
for each completion, which a user never has to."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kavka.tools.completion.candidates import candidates

WORDS: Final = "--words"

BASH: Final = """\
_kavka() {{
    local IFS=$'\\n'
    COMPREPLY=($(kavka completion --words "${{COMP_WORDS[@]:0:COMP_CWORD+1}}" 2>/dev/null))
}}
complete -o default -F _kavka {names}
"""

ZSH: Final = """\
_kavka() {{
    local -a found
    found=(${{(f)"$(kavka completion --words "${{(@)words[1,CURRENT]}}" 2>/dev/null)"}})
    if (( $#found )); then compadd -- $found; else _files; fi
}}
compdef _kavka {names}
"""

FISH: Final = """\
function __kavka
    kavka completion --words (commandline -opc) (commandline -ct) 2>/dev/null
end
for name in {names}
    complete -c $name -a '(__kavka)'
end
"""

SHELLS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}

USAGE: Final = """\
Print what bash, zsh or fish needs to complete command lines.

usage: kavka completion bash|zsh|fish

  bash: in ~/.bashrc                      source <(kavka completion bash)
  zsh:  in ~/.zshrc, behind compinit      source <(kavka completion zsh)
  fish: in ~/.config/fish/config.fish     kavka completion fish | source
"""


def main(words: Sequence[str], run: Callable[[Sequence[str]], int], scripts: Iterable[str]) -> int:
    """The exit code. `run` runs a command of `kavka`; `scripts` are the names of its tools' own
    scripts, as kavka-topics."""
    if words[:1] == [WORDS]:
        print(*candidates(words[1:], lambda chosen: _help(chosen, run)), sep="\n")
        return 0
    if words and words[0] in ("--help", "-h"):
        print(USAGE, end="")
        return 0
    if len(words) != 1 or words[0] not in SHELLS:
        named = " ".join(words) or "none"
        print(f"the shell is one of {', '.join(SHELLS)}, not {named!r}", file=sys.stderr)
        return 1
    print(SHELLS[words[0]].format(names=" ".join(["kavka", *scripts])), end="")
    return 0


def _help(chosen: Sequence[str], run: Callable[[Sequence[str]], int]) -> str:
    """What --help prints behind these commands."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):  # argparse's, behind the help
            run([*chosen, "--help"])
    return out.getvalue()

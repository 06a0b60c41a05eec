"""Where `kavka dump-log` and Apache Kafka's DumpLogSegments differ, and files to find it with."""

from __future__ import annotations

import contextlib
import io
import random
import shlex
from collections.abc import Sequence

from kavka.tools.admin.command import main
from kavka.tools.dump_log.command import TOOL
from support import java
from support.java_tools import Tools


def difference(tools: Tools, words: Sequence[str]) -> str:
    """Where the two tools differ; "" where they don't. Of what fails, only Kavka's message is
    another: one line. Kavka's runs first, since Apache Kafka's changes damaged indexes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(TOOL, words)
    done = tools.run(java.DUMP_LOG, *words)
    same = code == done.exit_code and out.getvalue() == done.text
    stderr = err.getvalue()
    agrees = stderr.count("\n") == 1 if code else stderr == done.stderr
    if same and agrees:
        return ""
    pairs = zip(done.text.splitlines(), out.getvalue().splitlines(), strict=False)
    first = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return (
        f"{shlex.join(words)}: exit code {done.exit_code} and {code}\n  {first[0][:500]}\n"
        f"  {first[1][:500]}\n  {done.stderr[:300]}\n  {stderr[:300]}"
    )


def damaged(chance: random.Random, sound: bytes) -> bytes:
    """A copy that is cut, longer, or different somewhere, mostly near its start."""
    kind, data = chance.randrange(5), bytearray(sound or b"\0")
    at = chance.randrange(min(len(data), chance.choice([30, 80, 2000, len(data)])))
    if kind == 0:
        return sound[:at]
    if kind == 1:
        return sound + bytes(chance.randrange(1, 80))
    if kind == 2:
        return sound + chance.randbytes(80)
    if kind == 3:
        data[at] ^= 1 << chance.randrange(8)
    else:
        data[at : at + 4] = chance.randbytes(4)
    return bytes(data)

"""The seam lint: a failing sample for every ban, and samples that must pass."""

from __future__ import annotations

import pytest

from lint import bans, seam_lint
from lint.findings import ROOT, python_files


def rules_of(source: str) -> list[str]:
    return [finding.rule for finding in seam_lint.check_source("server/x.py", source)]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import time", bans.CLOCK),
        ("from time import monotonic", bans.CLOCK),
        ("import time as t", bans.CLOCK),
        ("import datetime\ndatetime.datetime.now()", bans.CLOCK),
        ("import datetime as dt\ndt.datetime.utcnow()", bans.CLOCK),
        ("from datetime import datetime, UTC\nnow = datetime.now(UTC)", bans.CLOCK),
        ("from datetime import date as d\nd.today()", bans.CLOCK),
        ("def f():\n    from time import sleep", bans.CLOCK),
        ("self._loop.time()", bans.CLOCK),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1)", bans.TASKS),
        ("from asyncio import sleep", bans.TASKS),
        ("import asyncio\nasyncio.create_task(work())", bans.TASKS),
        ("import asyncio as a\na.ensure_future(work())", bans.TASKS),
        ("async def f(loop):\n    loop.create_task(work())", bans.TASKS),
        ("self.event_loop.call_later(1, work)", bans.TASKS),
        ("loop.call_at(1, work)", bans.TASKS),
        ("loop.call_soon(work)", bans.TASKS),
        ("import asyncio\nasyncio.get_running_loop().call_soon(work)", bans.TASKS),
        ("import asyncio\nasync def f():\n    async with asyncio.timeout(1): pass", bans.TASKS),
        ("import threading", bans.JOBS),
        ("from concurrent.futures import ThreadPoolExecutor", bans.JOBS),
        ("import concurrent.futures", bans.JOBS),
        ("import asyncio\nasyncio.to_thread(work)", bans.JOBS),
        ("x.run_in_executor(None, work)", bans.JOBS),
        ("import subprocess", bans.JOBS),
        ("import socket", bans.NETWORK),
        ("from socket import AF_INET", bans.NETWORK),
        ("import asyncio\nasyncio.start_server(f)", bans.NETWORK),
        ("self._loop.create_server(f)", bans.NETWORK),
        ("open('x')", bans.FILES),
        ("opener = open", bans.FILES),
        ("import io\nio.open('x')", bans.FILES),
        ("import gzip\ngzip.open('x')", bans.FILES),
        ("import os\nos.rename('a', 'b')", bans.FILES),
        ("import os\nos.path.exists('a')", bans.FILES),
        ("from os import path\npath.getsize('a')", bans.FILES),
        ("import os.path\nos.path.isfile('a')", bans.FILES),
        ("from os.path import exists", bans.FILES),
        ("import os\nos.environ['HOME']", bans.FILES),
        ("from pathlib import Path", bans.FILES),
        ("import pathlib\npathlib.Path('x').read_text()", bans.FILES),
        ("import shutil", bans.FILES),
        ("from tempfile import mkdtemp", bans.FILES),
        ("import uuid\nuuid.uuid4()", bans.CHANCE),
        ("from uuid import uuid1", bans.CHANCE),
        ("import os\nos.urandom(8)", bans.CHANCE),
        ("import secrets", bans.CHANCE),
        ("import random\nrandom.random()", bans.CHANCE),
        ("import random\nrandom.SystemRandom()", bans.CHANCE),
        ("from random import choice", bans.CHANCE),
        ("import random\nrandom.Random()", bans.CHANCE),
        ("from kavka.seams import Random\nRandom()", bans.CHANCE),
        ("for x in {a, b}: pass", bans.ORDER),
        ("for x in set(xs): pass", bans.ORDER),
        ("for x in frozenset(xs): pass", bans.ORDER),
        ("for x in set(xs) - done: pass", bans.ORDER),
        ("for x in {y for y in ys}: pass", bans.ORDER),
        ("[x for x in set(xs)]", bans.ORDER),
        ("{x: 1 for x in set(xs)}", bans.ORDER),
        ("list(set(xs))", bans.ORDER),
        ("tuple({a, b})", bans.ORDER),
        ("', '.join({a, b})", bans.ORDER),
        ("f(*set(xs))", bans.ORDER),
        ("yes(x for x in set(xs))", bans.ORDER),
    ],
)
def test_refused(source: str, rule: str) -> None:
    assert rules_of(source) == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "import datetime\nX = datetime.timedelta(hours=1)",
        "import asyncio\nasync def f(q: asyncio.Queue[int]): return await q.get()",
        "self._tasks.spawn(work(), name='work')",
        "self._tasks.call_later(1.0, work)",
        "tasks.call_soon(work)",
        "await self.tasks.sleep(0)",
        "self.clock.time()",
        "import os\nos.path.join('a', 'b')",
        "from os.path import join\njoin('a', 'b')",
        "import os\ndef f(path: str | os.PathLike[str]): return os.fspath(path)",
        "from pathlib import PurePath",
        "self.fs.open('x').read_bytes()",
        "class FileSystem:\n    def open(self): ...\n    def exists(self): ...",
        "import uuid\nuuid.UUID(int=chance.getrandbits(128))",
        "import random\ndef f(chance: random.Random): return random.Random(chance.random())",
        "from kavka.seams import Random\nRandom(7)",
        "import gzip\ngzip.compress(data)",
        "for x in sorted(set(xs)): pass",
        "for x in dict.fromkeys(xs): pass",
        "any(x.ready for x in {a, b})",
        "sorted(x.name for x in set(xs))",
        "{x.name for x in set(xs)}",
        "time = self.now\ntime.hour",
    ],
)
def test_allowed(source: str) -> None:
    assert rules_of(source) == []


@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for name, rule in bans.BANNED.items() if rule is not None]
)
def test_every_banned_name_is_found_however_it_is_imported(name: str, rule: str) -> None:
    if name == "open":  # the builtin
        assert rules_of("open") == [rule]
        return
    top, _, below = name.partition(".")
    if below:
        module, _, last = name.rpartition(".")
        used = f"{last}.anything" if bans.has_allowed_parts(name) else ""
        assert set(rules_of(f"import {top}\n{name}.anything")) == {rule}
        assert rules_of(f"from {module} import {last}\n{used}") == [rule]
    else:
        assert rules_of(f"import {name}\n{name}.anything") == [rule]
        assert rules_of(f"from {name} import anything") == [rule]


@pytest.mark.parametrize("name", [name for name, rule in bans.BANNED.items() if rule is None])
def test_every_allowed_name_passes(name: str) -> None:
    assert rules_of(f"import {name.partition('.')[0]}\nx: {name}") == []


@pytest.mark.parametrize(("method", "rule"), bans.BANNED_METHODS.items())
def test_every_banned_method_is_found(method: str, rule: str) -> None:
    assert rules_of(f"self.anything.{method}(x)") == [rule]


@pytest.mark.parametrize(("method", "rule"), bans.BANNED_LOOP_METHODS.items())
def test_every_banned_loop_method_is_found_on_loops_only(method: str, rule: str) -> None:
    assert rules_of(f"self._loop.{method}(x)") == [rule]
    assert rules_of(f"self._tasks.{method}(x)") == []


@pytest.mark.parametrize("function", sorted(seam_lint.ORDER_KEEPERS))
def test_calls_that_keep_a_sets_order_are_found(function: str) -> None:
    assert rules_of(f"{function}(set(xs))") == [bans.ORDER]


@pytest.mark.parametrize("function", sorted(seam_lint.ORDER_FORGETTERS))
def test_calls_that_forget_the_order_pass(function: str) -> None:
    assert rules_of(f"{function}(x for x in set(xs))") == []


def test_a_finding_names_place_rule_name_and_remedy() -> None:
    (finding,) = seam_lint.check_source("server/x.py", "import os\n\nos.remove('a')\n")
    assert str(finding) == (
        "server/x.py:3: files: os.remove: use the FileSystem that was handed in"
    )


def test_every_rule_has_a_remedy_and_every_exemption_a_known_rule_and_a_reason() -> None:
    rules = {*bans.BANNED.values(), *bans.BANNED_METHODS.values(), bans.ORDER} - {None}
    assert set(bans.INSTEAD) == rules
    for row in bans.EXEMPTIONS:
        assert set(row.rules) <= rules
        assert row.reason


def test_every_package_of_the_broker_is_checked() -> None:
    assert {top.name for top in seam_lint.checked_tops()} >= {"kavka", "wire", "log", "server"}


def test_checked_files_are_the_real_ones_each_once() -> None:
    paths = [path for top in seam_lint.checked_tops() for path in python_files(top)]
    assert ROOT / "wire" / "errors.py" in paths
    assert len({path.resolve() for path in paths}) == len(paths)

"""Fixtures for all tests. Those of one directory lie in its own conftest.py."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import kavka.server.request.log  # noqa: F401  (its logger has a level as soon as it is imported)
from support import java, scenarios, short_form, strict_arenas
from support.scheduling import Scheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

# How long an example of a property takes says nothing on a busy machine.
settings.register_profile("busy machine", settings.default, deadline=None)
settings.load_profile("busy machine")


def pytest_configure() -> None:
    """A shell's background job ignores SIGINT, and hands that down to what the tests start and
    stop by it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios",
        action="store_true",
        help="write what the code does now into tests/scenarios/*.txt",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is in whole.txt, unless a test was named."""
    if any("::" in argument for argument in config.args):
        return
    matches = short_form.matcher(short_form.patterns()).fullmatch
    left_out = [
        item
        for item in items
        if matches(short_form.id_of(item.nodeid)) and not short_form.runs_all_of(item.nodeid)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Our own, in place of that of `--dist=loadfile`."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def log_levels_stay() -> Iterator[None]:
    """A test that leaves a logger with another level than before fails, not a later test."""
    before = _log_levels()
    yield
    left = {name: level for name, level in _log_levels().items() if level != before.get(name, 0)}
    for name in left:
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))
    assert not left


@pytest.fixture
def own_log() -> Iterator[None]:
    """For what sets up this process's log: it is as before for the next test."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def _log_levels() -> dict[str, int]:
    """Those that are set: of the root, and of loggers of Kavka's."""
    found = {"root": logging.root.level}
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("kavka") and isinstance(logger, logging.Logger) and logger.level:
            found[name] = logger.level
    return found


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether scenario files are to be rewritten."""
    return scenarios.may_rewrite(request.config)


@pytest.fixture(scope="session", autouse=True)
def strict_arenas_everywhere() -> Iterator[None]:
    """No view of a request outlives its handler unless that says so: see `strict_arenas`."""
    with strict_arenas.enforce():
        yield


@pytest.fixture(autouse=True)
def no_view_of_a_request_is_kept() -> Iterator[None]:
    """What was found in a callback of the loop fails the test, too."""
    strict_arenas.found.clear()
    strict_arenas.leave_out_all()
    yield
    assert not strict_arenas.found


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """Apache Kafka's jars; without Java the test is skipped."""
    return java.kafka_libs()

"""Levels of loggers by Apache Kafka's names; Python's own loggers judge."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kavka.server.cluster.config_changes import AlterOp, ConfigChange
from kavka.server.cluster.logger_levels import LEVELS, LoggerLevels, ProcessLoggers
from kavka.wire.errors import ApiError, ErrorCode
from support.config_requests import LOGGER, SET, change
from support.memory_broker import MemoryBroker, scenario

PARENT, CHILD = "test_loggers.here", "test_loggers.here.below"


def of_process() -> LoggerLevels:
    return LoggerLevels(ProcessLoggers())


@pytest.fixture
def child() -> Iterator[logging.Logger]:
    """A logger under another one; both have no level of their own before and after."""
    both = [logging.getLogger(PARENT), logging.getLogger(CHILD)]
    root = logging.root.level
    yield both[1]
    for logger in both:
        logger.setLevel(logging.NOTSET)
    logging.root.setLevel(root)


def set_to(level: str, name: str = CHILD) -> None:
    of_process().alter([ConfigChange(name, AlterOp.SET, level)], validate_only=False)


@pytest.mark.parametrize(
    ("level", "lowest"),
    [
        ("DEBUG", logging.DEBUG),
        ("INFO", logging.INFO),
        ("WARN", logging.WARNING),
        ("ERROR", logging.ERROR),
        ("FATAL", logging.CRITICAL),
    ],
)
def test_a_level_counts_at_once(child: logging.Logger, level: str, lowest: int) -> None:
    set_to(level)
    assert child.isEnabledFor(lowest)
    assert not child.isEnabledFor(lowest - 1)
    assert of_process().describe()[CHILD] == level


def test_trace_is_below_all_that_python_has(child: logging.Logger) -> None:
    set_to("TRACE")
    assert child.isEnabledFor(logging.DEBUG - 1)
    assert of_process().describe()[CHILD] == "TRACE"


def test_without_a_level_the_parent_s_counts(child: logging.Logger) -> None:
    set_to("ERROR", PARENT)
    assert of_process().describe()[CHILD] == "ERROR"
    set_to("DEBUG")
    assert of_process().describe()[CHILD] == "DEBUG"
    of_process().alter([ConfigChange(CHILD, AlterOp.DELETE, None)], validate_only=False)
    assert of_process().describe()[CHILD] == "ERROR"
    set_to("FATAL", "root")
    assert of_process().describe()["root"] == "FATAL"


@pytest.mark.parametrize(
    ("level", "shown"), [(1, "TRACE"), (11, "INFO"), (35, "ERROR"), (51, "OFF"), (999, "OFF")]
)
def test_other_levels_are_shown_by_what_is_logged(
    child: logging.Logger, level: int, shown: str
) -> None:
    child.setLevel(level)
    assert of_process().describe()[CHILD] == shown


def test_a_name_that_only_stands_between_is_no_logger(child: logging.Logger) -> None:
    assert "test_loggers" not in of_process().describe()
    with pytest.raises(ApiError, match="Logger test_loggers does not exist!"):
        set_to("INFO", "test_loggers")
    assert list(of_process().describe()) == sorted(of_process().describe())


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        (
            ConfigChange(CHILD, AlterOp.SET, "info"),
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {CHILD} to info as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (
            ConfigChange("no.such", AlterOp.SET, "?"),
            ErrorCode.INVALID_CONFIG,
            "Logger no.such does not exist!",
        ),
        (
            ConfigChange("no.such", AlterOp.DELETE, None),
            ErrorCode.INVALID_CONFIG,
            "Logger no.such does not exist!",
        ),
        (
            ConfigChange("root", AlterOp.DELETE, None),
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            ConfigChange(CHILD, AlterOp.APPEND, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
    ],
)
def test_refused_with_all_the_others(
    child: logging.Logger, wrong: ConfigChange, code: ErrorCode, message: str
) -> None:
    with pytest.raises(ApiError) as caught:
        of_process().alter([ConfigChange(PARENT, AlterOp.SET, "ERROR"), wrong], validate_only=False)
    assert (caught.value.code, caught.value.message) == (code, message)
    assert logging.getLogger(PARENT).level == logging.NOTSET


def test_only_validated(child: logging.Logger) -> None:
    levels = of_process()
    levels.alter(
        [
            ConfigChange(name, AlterOp.SET, level)
            for name, level in zip((PARENT, CHILD), LEVELS, strict=False)
        ],
        validate_only=True,
    )
    assert child.level == logging.NOTSET
    child.setLevel(35)
    levels.restore()
    assert child.level == 35, "nothing is to be given back"


def test_levels_are_given_back(child: logging.Logger) -> None:
    child.setLevel(35)
    levels = of_process()
    for level_change in (
        ConfigChange(CHILD, AlterOp.SET, "ERROR"),
        ConfigChange(CHILD, AlterOp.DELETE, None),
    ):
        levels.alter(
            [level_change, ConfigChange(PARENT, AlterOp.SET, "DEBUG")], validate_only=False
        )
    assert child.level == logging.NOTSET
    levels.restore()
    assert (child.level, logging.getLogger(PARENT).level) == (35, logging.NOTSET)
    child.setLevel(40)
    levels.restore()
    assert child.level == 40, "once"


@pytest.mark.parametrize("ending", ["stop", "end_abruptly"])
@scenario()
async def test_a_program_gets_its_loggers_back(broker: MemoryBroker, ending: str) -> None:
    logger = logging.getLogger("kavka.server.instance")
    level = logger.level
    outcomes = await change(broker, (LOGGER, "1", [(logger.name, SET, "FATAL")]))
    assert outcomes == [(ErrorCode.NONE, None)]
    assert logger.level == logging.CRITICAL
    await getattr(broker, ending)()
    assert logger.level == level
    await broker.revive()

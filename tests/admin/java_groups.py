"""Groups by kafka-consumer-groups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from admin.cells import Failed, cells
from admin.held import HELD, IDLE, MISSING, NEW, SPARE
from admin.java_tools import CLIENT, run
from admin.place import Place
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS
from support.java_tools import Tools

Returned = Any
does = CLIENT.does

GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PATIENTLY: Final = "--timeout=60000"
"""By default the tool gives a broker five seconds."""

WARNED: Final = "exit code 0"
"""Something was said beside what was asked for, which is no failure."""
SECOND: Final = datetime.fromtimestamp((BASE_TIMESTAMP_MS + 5) / 1000, UTC)
"""A time between the first record and the second."""


def printed(tools: Tools, place: Place, *options: str) -> list[str]:
    """What is printed; columns are as wide as ports and ids make them."""
    try:
        lines = run(tools, place, GROUPS, PATIENTLY, *options)
    except Failed as failure:
        if failure.word != WARNED:
            raise
        lines = failure.shown["errors"] + failure.shown["output"]
    return [" ".join(line.split()) for line in lines]


def own(place: Place, lines: list[str]) -> list[str]:
    return sorted(line for line in lines if line.startswith(place.prefix))


@cells
def group(tools: Tools, place: Place, label: str, *options: str) -> Returned:
    """A cell of one group."""
    return printed(tools, place, f"--group={place.topic(label)}", *options)


def described(label: str, *options: str) -> Callable[[Tools, Place], Returned]:
    return group(label, "--describe", *options)


def listed(*options: str) -> Callable[[Tools, Place], Returned]:
    return lambda tools, place: own(place, printed(tools, place, "--list", *options))


@cells
def reset(tools: Tools, place: Place, label: str, *options: str) -> Returned:
    topic = f"--topic={place.topic('data')}"
    return printed(
        tools, place, f"--group={place.topic(label)}", "--reset-offsets", topic, *options
    )


does("list groups")(
    lambda tools, place: (listed()(tools, place), listed("--state", "--type")(tools, place))
)
does("list groups in some states")(listed("--state=Stable"))
does("list groups of a type")(listed("--type=classic"))
does("describe a group")(described(HELD))
does("describe a group of the newer protocol")(
    lambda tools, place: [
        described(NEW)(tools, place),
        described(NEW, "--members", "--verbose")(tools, place),
        described(NEW, "--state")(tools, place),
    ]
)
does("describe an empty group")(described(IDLE))
does("describe a group's members")(described(HELD, "--members", "--verbose"))
does("describe a group's state")(described(HELD, "--state"))
does("describe a missing group")(described(MISSING))
does("a group's offsets")(described(HELD, "--offsets", "--verbose"))
does("reset offsets to the beginning")(reset(IDLE, "--to-earliest", "--execute"))
does("reset offsets to the end")(reset(IDLE, "--to-latest", "--execute"))
does("reset offsets to a time")(
    reset(IDLE, f"--to-datetime={SECOND.strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3]}Z", "--execute")
)
does("reset offsets by a distance")(reset(IDLE, "--shift-by=-1", "--execute"))
does("reset offsets, only to plan")(reset(IDLE, "--to-offset=2", "--dry-run", "--export"))
does("reset offsets of a group in use")(reset(HELD, "--to-earliest", "--execute"))
does("set an empty group's offsets")(reset(IDLE, "--to-offset=2", "--execute"))
does("a missing group's offsets")(reset(MISSING, "--to-current", "--dry-run"))


@cells
def forgotten(tools: Tools, place: Place, label: str) -> Returned:
    topic = f"--topic={place.topic('data')}"
    return printed(tools, place, f"--group={place.topic(label)}", "--delete-offsets", topic)


does("delete a group's offsets")(forgotten(IDLE))
does("delete offsets that a group reads on from")(forgotten(HELD))
does("delete a missing group's offsets")(forgotten(MISSING))
does("delete a group in use")(group(HELD, "--delete"))
does("delete a group")(group(SPARE, "--delete"))
does("delete a missing group")(group(MISSING, "--delete"))

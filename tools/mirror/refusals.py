"""What the target's refusals mean: whether it helps to try again, and what may be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.failures import TRIES_MAX, Again, Fenced, Stuck, may_last
from kavka.tools.perf.client import error_text

FENCED: Final = ("_FATAL", "_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
"""A call after a fatal error says _FATAL, whatever it was."""

TOO_LARGE: Final = "MSG_SIZE_TOO_LARGE"
SMALLER: Final = (
    "give the topic a larger max.message.bytes in the target (it stays so), or the mirror another "
    "compression.type (in --target-config), as records are compressed anew, by lz4 if it has none"
)
INVALID: Final = "INVALID_RECORD"
WITHOUT_KEY: Final = (
    "it has no key, and a compacted topic takes no such record: leave the topic out, or set "
    "cleanup.policy=delete and retention.ms=-1 for it in the source until the record is copied"
)
LASTING: Final = (
    "leave the topic out, or see what the log of the target's brokers says. Kavka's refuse so what "
    "unpacks to more than 64 MiB in a topic that is compacted or has a compression.type: without "
    "these settings in the source (cleanup.policy=delete and retention.ms=-1) they take it"
)
TOO_LONG: Final = "INVALID_TRANSACTION_TIMEOUT"
SHORTER: Final = (
    "give the mirror a transaction.timeout.ms (in --target-config) that is not larger than the "
    "transaction.max.timeout.ms of the target's brokers"
)
SETTINGS: Final = "_INVALID_ARG"
OTHER_SETTINGS: Final = (
    "see the settings in --target-config: linger.ms is to be smaller than delivery.timeout.ms and "
    "transaction.timeout.ms (a minute, unless it is given)"
)
"""librdkafka checks some of them only when it is to write the first record of a topic."""

HOPELESS: Final = (
    INVALID,
    "INVALID_TIMESTAMP",
    TOO_LARGE,
    TOO_LONG,
    SETTINGS,
    "POLICY_VIOLATION",
    "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)
"""Trying again gives the same."""

CONFIGURED: Final = (INVALID, TOO_LARGE)
CONFIGURED_TRIES: Final = 2
"""Of what the topic's configs decide: they may have changed in the source, and follow at the next
look."""


class Refusal(NamedTuple):
    """A record that was not written."""

    error: Any
    topic_partition: TopicPartition
    offset: int | None
    """In the source; None: it is one of the ledger's."""

    has_key: bool


def judged(error: Any) -> Exception:
    """An error of the client as Again or Failed."""
    if error.name() == SETTINGS:
        return Failed(
            f"the mirror's producer takes no record: {error_text(error)}; {OTHER_SETTINGS}"
        )
    if error.name() in HOPELESS:
        said = f"the target refuses it: {error_text(error)}"
        return Failed(_because(said, SHORTER if error.name() == TOO_LONG else ""))
    return (Fenced if error.name() in FENCED else Again)(error_text(error))


def judged_refusals(refusals: Sequence[Refusal]) -> Exception:
    """What some refused records come to, as Again or Failed: the one that tells most."""
    for refusal in refusals:
        if refusal.error.name() in CONFIGURED:
            return _stuck(refusal, refusals, CONFIGURED_TRIES)
        if refusal.error.name() in HOPELESS:
            return Failed(_because(*_sentence(refusal, refusals)))
    for refusal in refusals:
        if refusal.error.name() not in FENCED and may_last(refusal.error):
            return _stuck(refusal, refusals, TRIES_MAX)
    return judged(refusals[0].error)


def _stuck(refusal: Refusal, refusals: Sequence[Refusal], tries_max: int) -> Stuck:
    return Stuck(
        refusal.topic_partition,
        *_sentence(refusal, refusals),
        offset=refusal.offset,
        tries_max=tries_max,
    )


def _sentence(first: Refusal, refusals: Sequence[Refusal]) -> tuple[str, str]:
    """Which records the target refuses, and what may be done. It refuses whole batches, so that
    the one that it means is not always known."""
    name, where = first.error.name(), f"{first.topic_partition[0]}-{first.topic_partition[1]}"
    same = [
        refusal
        for refusal in refusals
        if refusal.topic_partition == first.topic_partition and refusal.error.name() == name
    ]
    keyless = [refusal for refusal in same if not refusal.has_key] if name == INVALID else []
    if first.offset is None:
        which = f"a record of {where}"
    elif keyless or len(same) == 1:
        which = f"the record of {where} at offset {(*keyless, first)[0].offset} of the source"
    else:
        which = f"one of the records of {where} at offsets {first.offset} to {same[-1].offset} "
        which += "of the source"
    remedies = {TOO_LARGE: SMALLER, INVALID: WITHOUT_KEY if keyless else ""}
    said = f"the target refuses {which}: {error_text(first.error)}"
    return said, remedies.get(name, "" if name in HOPELESS else LASTING)


def _because(said: str, remedy: str) -> str:
    return f"{said}; {remedy}" if remedy else said

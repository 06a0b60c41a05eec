"""What cases about topics have in common: seeing what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.compat_tests.raw.case import Ground, Script, looking

METADATA: Final = ("Metadata", 9)
UNKNOWN: Final = 3
GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"


def made(on: Ground, names: Sequence[str], *, unmade: Sequence[str] = ()) -> Script:
    """Wait for topics, since Apache Kafka answers before they are there; then compare."""
    yield from _until(on, names, lambda topic: not _codes(topic))
    yield _metadata(on, (*names, *unmade))


def extended(on: Ground, name: str, partitions: int) -> Script:
    """Wait until a topic has so many partitions, each with a leader; then compare."""
    yield from _until(
        on, [name], lambda topic: not _codes(topic) and len(topic["partitions"]) == partitions
    )
    yield _metadata(on, [name])


def gone(on: Ground, names: Sequence[str], *, kept: Sequence[str] = ()) -> Script:
    """Wait until topics are no more; then compare what is described of them and of those `kept`."""
    yield from _until(on, names, lambda topic: topic["error_code"] == UNKNOWN)
    yield _metadata(on, (*names, *kept))


def _until(on: Ground, names: Sequence[str], is_so: Any) -> Script:
    for _ in looking() if names else ():
        answer = yield _metadata(on, names, compared=False)
        if all(is_so(topic) for topic in answer["topics"]):
            return


def _metadata(on: Ground, names: Sequence[str], *, compared: bool = True) -> Any:
    topics = [{"name": name} for name in names]
    return on.other(*METADATA, compared=compared, topics=topics, allow_auto_topic_creation=False)


def _codes(topic: Any) -> list[int]:
    codes = [topic["error_code"], *(partition["error_code"] for partition in topic["partitions"])]
    return [code for code in codes if code]

"""Batches in every form of every codec, as `support.codec_forms` has them and as the stock clients
sent them, and batches that do not keep their promises."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, build, field, patch
from kavka.wire.compression import Codec
from support.codec_batches import COUNT, LIES, ODD, RECORDS, in_form, promising
from support.codec_forms import FORMS, Form, zstd_frame

CAPTURED: Final = Path(__file__).parent / "clients.json"
APART_MS: Final = 1000
"""Of the times of two cases, so that each is found by its own."""

PLAIN: Final = "not compressed"
PROMISES: Final = "records that are not what the header promises"
"""The group of batches that lie."""


class Case(NamedTuple):
    """What is sent: a batch made for the case's number, which determines its keys and times."""

    group: str
    name: str
    make: Callable[[int], bytearray]
    form: Form | None = None
    """In which old messages are sent too."""

    @property
    def label(self) -> str:
        return f"{self.group}: {self.name}"


def records_of(number: int) -> bytearray:
    """An uncompressed batch whose keys and times no other case has."""
    shift = number * APART_MS
    return build(
        [
            record._replace(key=b"%d %s" % (number, record.key), time_ms=record.time_ms + shift)
            for record in RECORDS
        ]
    )


@cache
def cases() -> tuple[Case, ...]:
    """All, in the order of the page."""
    return (*_clients(), *_forms(), *_promises())


def _clients() -> Iterator[Case]:
    for capture in json.loads(CAPTURED.read_text()):
        batch = bytearray(base64.b64decode(capture["batch"]))
        yield Case(
            "as the clients send them",
            f"{capture['codec']} of {capture['client']}",
            lambda number, batch=batch: _later(batch, number),  # type: ignore[misc]
        )


def _later(batch: bytearray, number: int) -> bytearray:
    span = field(batch, "max_timestamp") - field(batch, "base_timestamp")
    start = BASE_TIMESTAMP_MS + number * APART_MS
    return patch(batch, base_timestamp=start, max_timestamp=start + span)


def _forms() -> Iterator[Case]:
    for form in FORMS:
        yield Case(
            form.codec.name.lower(),
            form.name,
            lambda number, form=form: in_form(records_of(number), form.codec, form.encode),  # type: ignore[misc]
            form,
        )


def _promises() -> Iterator[Case]:
    for name, records in {**LIES, **ODD}.items():
        yield Case(PROMISES, f"{name}, {PLAIN}", lambda number, r=records: _promising(r, number))  # type: ignore[misc]
        yield Case(
            PROMISES,
            f"{name}, zstd",
            lambda number, r=records: in_form(_promising(r, number), Codec.ZSTD, zstd_frame),  # type: ignore[misc]
        )


def _promising(records: bytes, number: int) -> bytearray:
    return promising(records, number * APART_MS)


assert COUNT == len(RECORDS)

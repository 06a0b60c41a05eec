"""The request log: off unless asked for by name, then a line a request with what is true of it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.server.request import log as request_log
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.apis import metadata
from support.broker import kavka_environment
from support.memory_broker import MemoryBroker, scenario


def is_on_in_a_process_that(setting: str) -> bool:
    """Whether requests are logged where logging was set up so."""
    program = f"import logging; {setting}; from kavka.server.request import log"
    shown = subprocess.run(
        [sys.executable, "-c", f"{program}; print(log.is_on())"],
        env=kavka_environment(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    return shown.stdout.strip() == b"True"


def test_it_is_off_even_where_all_is_logged() -> None:
    assert not is_on_in_a_process_that("logging.basicConfig(level='DEBUG')")


def test_it_is_on_where_it_was_asked_for_before_the_broker_was_loaded() -> None:
    assert is_on_in_a_process_that("logging.getLogger('kavka.request').setLevel('DEBUG')")


def test_a_line(caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer("INSIDE", "10.0.0.9:1234")
    context = RequestContext(peer, 12, 77, 'a "client"')
    with caplog.at_level(logging.DEBUG, "kavka.request"):
        request_log.log(
            metadata.API,
            context,
            request_bytes=40,
            response_bytes=400,
            totalTimeMs=1.23456789,
            requestQueueTimeMs=0.1,
        )
    (line,) = completed(caplog)
    assert line == {
        "requestHeader": {
            "requestApiKey": 3,
            "requestApiVersion": 12,
            "correlationId": 77,
            "clientId": 'a "client"',
            "requestApiKeyName": "Metadata",
        },
        "requestSizeBytes": 40,
        "responseSizeBytes": 400,
        "connection": "10.0.0.9:1234",
        "totalTimeMs": 1.235,
        "requestQueueTimeMs": 0.1,
        "principal": "User:ANONYMOUS",
        "listener": "INSIDE",
    }


def completed(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines of the request log."""
    lines = [record.getMessage() for record in caplog.records if record.name == "kavka.request"]
    assert all(line.startswith("Completed request:{") for line in lines)
    return [json.loads(line.partition(":")[2]) for line in lines]


@scenario(topics={"t": 1})
async def test_each_request_is_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    records = batches.build([batches.Written(None, b"x")])
    for _ in range(3):
        await broker.produce(records[:], version=9)
    assert completed(caplog) == []
    with caplog.at_level(logging.DEBUG, "kavka.request"):
        await broker.ask("Metadata", 12, topics=None)
        for _ in range(3):
            await broker.produce(records[:], version=9)
    lines = completed(caplog)
    await broker.produce(records[:], version=9)
    assert completed(caplog) == lines
    names = [line["requestHeader"]["requestApiKeyName"] for line in lines]
    assert names == ["Metadata", "Produce", "Produce", "Produce"]
    ids = [line["requestHeader"]["correlationId"] for line in lines]
    assert ids == list(range(ids[0], ids[0] + 4)), "also of those on the fast path"
    for line in lines:
        assert line["connection"] == "10.0.0.1:5555"
        assert line["listener"] == "PLAINTEXT"
        assert line["principal"] == "User:ANONYMOUS"
        assert line["requestSizeBytes"] > 0
        assert line["responseSizeBytes"] > 0

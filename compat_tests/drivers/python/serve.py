"""What the drivers in Python share: the loop of requests and responses (see ../README.md)."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

Arguments = Mapping[str, Any]
"""What a request holds beside its id and its name."""


def from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def to_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def headers_of(record: Arguments) -> list[tuple[str, bytes | None]]:
    """The headers of a record that is to be sent."""
    return [(name, from_base64(value)) for name, value in record.get("headers", ())]


def headers_as_json(headers: Sequence[tuple[str, bytes | None]] | None) -> list[list[str | None]]:
    return [[name, to_base64(value)] for name, value in headers or ()]


def given(arguments: Arguments, names: Mapping[str, str]) -> dict[str, Any]:
    """The arguments that were given, under the library's names."""
    return {names[name]: value for name, value in arguments.items() if name in names}


def serve(
    requests: Mapping[str, Callable[[Arguments], Any]],
    describe_error: Callable[[Exception], Mapping[str, Any]],
    close: Callable[[], None],
) -> None:
    """Carry out requests until the input ends, then close the client."""
    responses = sys.stdout
    sys.stdout = sys.stderr  # a library that prints would break the conversation
    for line in sys.stdin:
        request = json.loads(line)
        response: dict[str, Any] = {"id": request.pop("id")}
        try:
            response["result"] = requests[request.pop("do")](request)
        except Exception as failure:  # any of the library's is a result of the test
            response["error"] = describe_error(failure)
        responses.write(json.dumps(response) + "\n")
        responses.flush()
    close()


async def serve_async(
    requests: Mapping[str, Callable[[Arguments], Awaitable[Any]]],
    describe_error: Callable[[Exception], Mapping[str, Any]],
    close: Callable[[], Awaitable[None]],
) -> None:
    """As `serve`, for a library whose tasks run on while the next request is awaited."""
    responses = sys.stdout
    sys.stdout = sys.stderr
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        response: dict[str, Any] = {"id": request.pop("id")}
        try:
            response["result"] = await requests[request.pop("do")](request)
        except Exception as failure:  # any of the library's is a result of the test
            response["error"] = describe_error(failure)
        responses.write(json.dumps(response) + "\n")
        responses.flush()
    await close()

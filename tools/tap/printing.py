"""Messages as lines of text, or as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kavka.tools.tap import records
from kavka.tools.tap.conversation import Event, Message, Peers
from kavka.tools.tap.messages import Part, plain

PARTS_MAX: Final = 12
"""Topic partitions in one line of text; JSON has all."""

DETAIL_CHARACTERS_MAX: Final = 100


class Form(NamedTuple):
    """How messages are printed."""

    is_json: bool = False
    is_full: bool = False
    """The whole message too."""
    has_records: bool = False
    """Keys and values too."""


def lines_of(shown: Message | Event, form: Form) -> Iterator[str]:
    """What is printed for a message or an event."""
    if form.is_json:
        value = _json_event(shown) if isinstance(shown, Event) else _json_message(shown, form)
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(shown, Event):
        where = "" if shown.peers is None else f"#{shown.peers.number} "
        yield f"{_clock(shown.time_us)} {where}{shown.text}"
    else:
        yield _line(shown)
        if shown.body is not None:
            yield from _more_lines(shown, form)


# -- text --------------------------------------------------------------------------------------


def _line(message: Message) -> str:
    arrow = ">" if message.is_request else "<"
    node = "" if message.peers.node is None else f" node={message.peers.node}"
    head = (
        f"{_clock(message.time_us)} #{message.peers.number} {arrow} {message.name}"
        f" client={message.client_id or '-'}{node} {message.size}B"
    )
    if message.elapsed_us is not None:
        head += f" {message.elapsed_us / 1000:.3f}ms"
    if message.unknown:
        return f"{head} UNKNOWN ({message.unknown})"
    content = message.content
    words = [f"{name}={_detail(value)}" for name, value in content.details.items()]
    words += [_part(part) for part in content.parts[:PARTS_MAX]]
    if len(content.parts) > PARTS_MAX:
        words.append(f"and {len(content.parts) - PARTS_MAX} more")
    of_parts = [part.error for part in content.parts[:PARTS_MAX]]
    words += [f"error={name}" for name in content.errors if name not in of_parts]
    return " ".join([head, *words])


def _part(part: Part) -> str:
    where = part.topic if part.partition is None else f"{part.topic}-{part.partition}"
    said = [f"{name} {number}" for name, number in part.notes.items()]
    if part.bytes is not None:
        said.append(f"{part.bytes}B")
    if part.error is not None:
        said.append(part.error)
    return f"{where}({', '.join(said)})" if said else where


def _detail(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= DETAIL_CHARACTERS_MAX else f"{text[:DETAIL_CHARACTERS_MAX]}..."


def _more_lines(message: Message, form: Form) -> Iterator[str]:
    if form.is_full:
        text = json.dumps(_body(message, form), ensure_ascii=False, indent=2)
        yield from (f"    {line}" for line in text.splitlines())
    elif form.has_records:
        yield from (f"    {line}" for line in _record_lines(message))


def _record_lines(message: Message) -> Iterator[str]:
    for partition, batches in _all_records(message):
        for batch in batches:
            if "unreadable" in batch:
                yield f"{partition} at {batch['base_offset']}: unreadable: {batch['unreadable']}"
            for record in batch.get("records", ()):
                headers = "".join(f" {name}={value}" for name, value in record.get("headers", ()))
                key, value = _shown(record["key"]), _shown(record["value"])
                yield f"{partition} @{record['offset']} {key}: {value}{headers}"


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _clock(time_us: int) -> str:
    """The time of day, in local time."""
    seconds, us = divmod(time_us, 1_000_000)
    return f"{datetime.fromtimestamp(seconds):%H:%M:%S}.{us:06}"


# -- JSON --------------------------------------------------------------------------------------


def _json_event(event: Event) -> dict[str, Any]:
    return {"time": _iso(event.time_us), **_json_peers(event.peers), "event": event.text}


def _json_message(message: Message, form: Form) -> dict[str, Any]:
    found: dict[str, Any] = {
        "time": _iso(message.time_us),
        **_json_peers(message.peers),
        "kind": "request" if message.is_request else "response",
        "api": None if message.api is None else message.api.name,
        "apiKey": message.key,
        "version": message.version,
        "clientId": message.client_id,
        "correlationId": message.correlation_id,
        "bytes": message.size,
    }
    if message.elapsed_us is not None:
        found["ms"] = message.elapsed_us / 1000
    if message.unknown:
        found["unknown"] = message.unknown
        return found
    content = message.content
    found["details"] = {name: _json_detail(value) for name, value in content.details.items()}
    found["partitions"] = [_json_part(part) for part in content.parts]
    found["errors"] = content.errors
    if message.body is not None:
        if form.is_full:
            found["message"] = _body(message, form)
        elif form.has_records:
            found["records"] = [
                {"partition": partition, "batches": batches}
                for partition, batches in _all_records(message)
            ]
    return found


def _json_peers(peers: Peers | None) -> dict[str, Any]:
    if peers is None:
        return {}
    return {
        "connection": peers.number,
        "client": peers.client,
        "broker": peers.broker,
        "node": peers.node,
    }


def _json_part(part: Part) -> dict[str, Any]:
    found: dict[str, Any] = {"topic": part.topic, "partition": part.partition}
    if part.bytes is not None:
        found["bytes"] = part.bytes
    if part.error is not None:
        found["error"] = part.error
    return {**found, **part.notes}


def _json_detail(value: Any) -> Any:
    return list(map(str, value)) if isinstance(value, list | tuple) else value


def _iso(time_us: int) -> str:
    seconds, us = divmod(time_us, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{us:06}Z"


# -- whole messages ----------------------------------------------------------------------------


def _body(message: Message, form: Form) -> dict[str, Any]:
    read: Callable[[Any], Any] = records.with_values if form.has_records else records.batches
    return plain(message.body, message.class_name, message.schema_version, read)


def _all_records(message: Message) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The records of each partition: topic and partition, and their batches."""
    for part in message.content.parts:
        if part.bytes and part.records is not None:
            yield f"{part.topic}-{part.partition}", records.with_values(part.records)

"""Cases that every API has: an ordinary request whose frame has something odd about it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic, Values
from kavka.compat_tests.raw.codec import stock_codec, wire_client

Ordinary: TypeAlias = Callable[[Ground], Values]
NamedRequest: TypeAlias = Callable[[str], Values]
Spoil: TypeAlias = Callable[[bytes], bytes]
"""A frame without its length to another one."""

UNKNOWN_TAG: Final = b"\1\x63\2ab"
"""A tagged section with one tag, number 99, of two bytes (KIP-482)."""

CLIENT_AT: Final = 8
CLIENT_END: Final = CLIENT_AT + 2 + len(wire_client.CLIENT_ID)


def add_frames(cases: Cases, ordinary: Ordinary, topics: Sequence[Topic] = (Topic(),)) -> None:
    """`ordinary` gives a request that is answered; it should leave the shared things alone."""
    for name, spoil in PLAIN.items():
        cases.add(name, _spoilt(ordinary, spoil), topics=topics)
    first = next(
        (n for n in range(cases.first, cases.last + 1) if _is_flexible(cases.api, n)), None
    )
    if first is not None:
        for name, spoil in FLEXIBLE.items():
            cases.add(name, _spoilt(ordinary, spoil), since=first, topics=topics)


def given(values: Values) -> Ordinary:
    """A case of one request that is the same everywhere."""
    return lambda on: values


def add_odd_names(
    cases: Cases, named: NamedRequest, *, since: int = 0, until: int | None = None
) -> None:
    """A topic's name that is no UTF-8; `named` gives a request that holds the name it is given."""
    for name, odd in NOT_UTF8.items():
        script = _renamed(named, odd)
        cases.add(f"a topic's name: {name}", script, topics=[], since=since, until=until)


def _renamed(named: NamedRequest, odd: bytes) -> Callable[[Ground], Script]:
    placeholder = "P" * len(odd)

    def script(on: Ground) -> Script:
        frame = on.frame(**named(placeholder))
        assert frame.count(placeholder.encode()) == 1
        yield on.raw(frame.replace(placeholder.encode(), odd))

    return script


def _is_flexible(api: str, version: int) -> bool:
    return stock_codec.is_flexible(f"{api}Request", version)


def _spoilt(ordinary: Ordinary, spoil: Spoil) -> Callable[[Ground], Script]:
    def script(on: Ground) -> Script:
        frame = on.frame(**ordinary(on))
        yield on.raw(wire_client.framed(spoil(frame[4:])))

    return script


def _with_client(client_id: bytes | None) -> Spoil:
    length = -1 if client_id is None else len(client_id)
    field = struct.pack(">h", length) + (client_id or b"")
    return lambda frame: frame[:CLIENT_AT] + field + frame[CLIENT_END:]


PLAIN: Final[Mapping[str, Spoil]] = {
    "an ordinary frame": lambda frame: frame,
    "bytes behind the request": lambda frame: frame + b"\1\2\3",
    "a byte too few": lambda frame: frame[:-1],
    "half a request": lambda frame: frame[: (CLIENT_END + len(frame) + 1) // 2],
    "a header alone": lambda frame: frame[:CLIENT_END],
    "half a header": lambda frame: frame[: CLIENT_AT + 3],
    "a null client id": _with_client(None),
    "an empty client id": _with_client(b""),
    "a client id that is not UTF-8": _with_client(b"\xff\xfe\xc3("),
    "a client id past the end": lambda frame: frame[:CLIENT_AT] + b"\x7f\xff" + frame[10:],
}

FLEXIBLE: Final[Mapping[str, Spoil]] = {
    "an unknown tag in the header": (
        lambda frame: frame[:CLIENT_END] + UNKNOWN_TAG + frame[CLIENT_END + 1 :]
    ),
    "an unknown tag at the end": lambda frame: frame[:-1] + UNKNOWN_TAG,
    "a tag past the end": lambda frame: frame[:-1] + b"\1\x63\x7fab",
}

NOT_UTF8: Final[Mapping[str, bytes]] = {
    "bytes that begin no character": b"ab\xff\xfe\x80z-topic",
    "a character cut off": b"topic-name-\xe2\x82",
    "a character cut off inside": b"topic-\xf0\x9f\x98-name",
    "an overlong slash": b"topic-name-\xc0\xaf",
    "half of a surrogate pair": b"topic-name-\xed\xa0\x80",
    "a zero byte": b"topic-name-\0-",
}

"""ApiVersions: names and versions of clients, and versions that there are not."""

from __future__ import annotations

import struct

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Values
from kavka.compat_tests.raw.codec import schemas, wire_client
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("ApiVersions")


def named(name: str, version: str) -> Function:
    return lambda on: {"client_software_name": name, "client_software_version": version}


def ordinary(on: Ground) -> Values:
    return {"client_software_name": "tester", "client_software_version": "1.0"}


add_frames(CASES, ordinary, topics=[])

NAMES = {
    "letters": "abcXYZ",
    "digits": "0",
    "inner dots and dashes": "a.b-c..d",
    "an empty one": "",
    "a leading dot": ".a",
    "a trailing dash": "a-",
    "a dash": "-",
    "a space": "a b",
    "an underscore": "a_b",
    "a plus": "1.0+2",
    "a line end": "a\n",
    "not ASCII": "\u00e4",
    "a long one": "x" * 2000,
}
for label, text in NAMES.items():
    CASES.add(f"a name: {label}", named(text, "1.0"), since=3, topics=[])
    CASES.add(f"a version: {label}", named("tester", text), since=3, topics=[])


@CASES.case(topics=[])
def asked_twice(on: Ground) -> Script:
    yield on.ask(**ordinary(on))
    yield on.ask(**ordinary(on))


def in_version(version: int, body: bytes) -> Function:
    """Answered in version 0, since the broker can't know the form of what follows."""

    def script(on: Ground) -> Script:
        header = struct.pack(">hhih", 18, version, 77, 2) + b"me"
        yield on.raw(wire_client.framed(header + body), ("ApiVersions", 0))
        yield on.ask(**ordinary(on))

    return script


for version in (5, 6, 99, 32_767, -1, -32_768):
    CASES.add(f"version {version}", in_version(version, b""), until=0, topics=[])
    CASES.add(
        f"version {version} with more", in_version(version, b"\0\3a\3b\0"), until=0, topics=[]
    )


# -- frames that are no request at all ------------------------------------------------------


def bytes_of(data: bytes) -> Function:
    """Sent as they are; then the connection is asked whether it still is one."""

    def script(on: Ground) -> Script:
        yield on.raw(data)
        yield on.ask(**ordinary(on))

    return script


def ending_in(data: bytes) -> Function:
    def script(on: Ground) -> Script:
        yield on.ended(data)
        yield on.ask(**ordinary(on))

    return script


def odd(name: str, function: Function) -> None:
    CASES.add(name, function, until=0, topics=[])


def header(key: int, version: int) -> bytes:
    return wire_client.framed(wire_client.header(key, version, 7, flexible=False))


def length(size: int) -> bytes:
    return struct.pack(">i", size)


for key in (-32_768, -1, 4, 5, 6, 7, 52, 53, 54, 59, 62, 63, 67, 99, 999, 32_767):
    odd(f"API key {key}", bytes_of(header(key, 0)))
for api in schemas.served_apis():
    if api.key != CASES.key:
        odd(f"{api.name} above its versions", bytes_of(header(api.key, api.highest + 1)))
        odd(f"{api.name} at version -1", bytes_of(header(api.key, -1)))

for size in (-(2**31), -2, -1, 104_857_601, 2**31 - 1):
    odd(f"a length of {size}", bytes_of(length(size)))
for size in range(10):
    odd(f"a frame of {size} bytes", bytes_of(wire_client.framed(bytes([0, 18] * 5)[:size])))
odd("a client id of minus two bytes", bytes_of(wire_client.framed(b"\0\x12\0\0\0\0\0\7\xff\xfe")))
odd("HTTP", bytes_of(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"))
odd("HTTP/2", bytes_of(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
odd("a TLS hello", bytes_of(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506)))
odd("SSH", bytes_of(b"SSH-2.0-OpenSSH_9.6\r\n"))
odd("a mechanism of old SASL", bytes_of(b"\0\0\0\5PLAIN"))
for byte in (0, 1, 0x7F, 0xFF):
    odd(f"a thousand bytes of {byte}", ending_in(bytes([byte]) * 1000))
odd("nothing at all", ending_in(b""))
odd("half a length", ending_in(b"\0\0"))
odd("a length and no more", ending_in(length(100)))
odd("half a request, then the end", ending_in(length(100) + b"\0\x12\0\0"))
odd("a whole request, then the end", ending_in(header(18, 0)))


@CASES.case(topics=[])
def two_requests_at_once(on: Ground) -> Script:
    yield on.raw(on.frame(**ordinary(on)) + on.frame(**ordinary(on)))
    yield on.raw(b"")


@CASES.case(topics=[])
def garbage_behind_a_request(on: Ground) -> Script:
    yield on.raw(on.frame(**ordinary(on)) + header(999, 0))
    yield on.raw(b"")


@CASES.case(topics=[])
def requests_of_several_apis_at_once(on: Ground) -> Script:
    """Answered in the order of asking."""
    metadata = on.other("Metadata", 1, topics=[])
    yield on.raw(on.frame(**ordinary(on)) + metadata.frame + on.frame(**ordinary(on)))
    yield on.raw(b"", ("Metadata", 1))
    yield on.raw(b"")

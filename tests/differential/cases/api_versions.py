"""ApiVersions: names and versions of clients, and versions that there are not."""

from __future__ import annotations

import struct

from differential.case import Cases, Function, Ground, Script, Values
from differential.frames import add_frames
from support import wire_client

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

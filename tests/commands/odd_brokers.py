"""Ports that speak Kafka's protocol as few brokers do, or do not answer at all."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from commands.no_brokers import Handler
from kavka.compat_tests.raw.codec import wire_client
from support.ports import HOST, free_port
from support.scripted_broker import read_request, response_frame

HEAD_BYTES: Final = 12
ODD_CODE: Final = -1

Ranges = Mapping[int, tuple[int, int]]
"""(lowest, highest) version by the key of an API."""


def of_release(*release: int) -> Ranges:
    """What a release of Apache Kafka serves, as kafka-python knows it."""
    found: Ranges = BROKER_API_VERSIONS[release]
    return found


def answering(served: Ranges, **answers: Mapping[str, Any]) -> Handler:
    """A broker that names these versions (and ApiVersions up to 4), gives these answers, and hangs
    up at other requests."""
    ranges = {**served, int(ApiKey.ApiVersions): (0, 4)}
    api_keys = [
        {"api_key": key, "min_version": lowest, "max_version": highest}
        for key, (lowest, highest) in ranges.items()
    ]
    values: Mapping[str, Mapping[str, Any]] = {"ApiVersions": {"api_keys": api_keys}, **answers}
    by_key = {wire_client.api_key(name): name for name in values}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                name = by_key.get(int.from_bytes(frame[:2], "big"))
                if name is None:
                    break
                request = read_request(name, frame)
                writer.write(wire_client.framed(response_frame(request, **values[name])))
        writer.close()

    return handle


async def unclear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the first request with its correlation id, and an error code of no broker."""
    head = await reader.readexactly(HEAD_BYTES)
    said = head[8:] + struct.pack(">hi", ODD_CODE, 0)
    writer.write(wire_client.framed(said))
    await writer.drain()
    writer.close()


@contextlib.contextmanager
def full_port(host: str = HOST, port: int = 0) -> Iterator[int]:
    """A port that does not answer those who want to connect, as behind a firewall: its queue has
    room for one, nobody takes that one, and it is there."""
    with socket.socket() as listening, socket.socket() as waiting:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(0)
        waiting.connect(listening.getsockname())
        yield listening.getsockname()[1]


@contextlib.contextmanager
def refusing_handshakes(server: Path) -> Iterator[int]:
    """A port of OpenSSL's that no client shares a cipher with: its only one is for another kind of
    key than the RSA key in `server`."""
    port = free_port()
    command = ["openssl", "s_server", "-accept", f"{HOST}:{port}", "-cert", str(server)]
    only = ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"]
    pipe = subprocess.PIPE  # it ends at the end of its input
    with subprocess.Popen([*command, *only], stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            assert b"ACCEPT\n" in iter(process.stdout.readline, b""), "it does not listen"
            yield port
        finally:
            process.kill()

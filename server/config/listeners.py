"""Parses and checks `listeners`, `advertised.listeners` and the security protocol map."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their numbers on the wire, from 0 on."""
_HOST_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "-%._:")
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Listener:
    """One `NAME://host:port`.

    To bind: host "" is every interface, port 0 a free port chosen by the kernel.
    As advertised: host "" is this machine's host name, port 0 the bound port.
    """

    name: str
    host: str
    port: int


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...` as protocols by listener name. Raises ValueError."""
    protocols: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in item.rpartition(":"))
        if not colon or not name:
            raise ValueError(f"{item} is not of the form LISTENER:PROTOCOL")
        if protocol not in PROTOCOLS:
            raise ValueError(f"{protocol} is no protocol; there are {', '.join(PROTOCOLS)}")
        protocols[name.upper()] = protocol
    return protocols


def parse_listeners(items: Sequence[str]) -> tuple[Listener, ...]:
    """Listeners of the form NAME://host:port, in order. Names are upper-cased.

    Raises ValueError for malformed items and duplicate names, with all of them in its message.
    """
    found: dict[str, Listener] = {}
    wrong: list[str] = []
    for item in items:
        try:
            listener = _parse_listener(item)
        except ValueError as error:
            wrong.append(str(error))
            continue
        if listener.name in found:
            wrong.append(f"two listeners are named {listener.name}")
        found[listener.name] = listener
    if not items:
        wrong.append("at least one listener is needed")
    if wrong:
        raise ValueError(", ".join(wrong))
    return tuple(found.values())


def _parse_listener(item: str) -> Listener:
    name, _, address = item.partition("://")
    found = _split(address)
    if not name or found is None:
        raise ValueError(
            f"{item} is not of the form NAME://host:port with a port from 0 to {_PORT_MAX}"
        )
    return Listener(name.upper(), *found)


def _split(address: str) -> tuple[str, int] | None:
    """Host (without the brackets of an IPv6 address) and port; None if it is malformed."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    numbered = port.isascii() and port.isdecimal() and int(port) <= _PORT_MAX
    if not colon or not numbered or not _HOST_LETTERS.issuperset(host):
        return None
    return host, int(port)


def parse_address(name: str, address: str) -> Listener:
    """A listener from `host:port` alone. Raises ValueError."""
    found = _split(address)
    if found is None:
        raise ValueError(
            f"{address} is not of the form host:port with a port from 0 to {_PORT_MAX}"
        )
    return Listener(name, *found)


def unsupported_protocols(listeners: Sequence[Listener], protocols: Mapping[str, str]) -> str:
    """Why some listeners can't be served with their protocols; "" if all can."""
    named = {listener.name: protocols.get(listener.name) for listener in listeners}
    missing = [name for name, protocol in named.items() if protocol is None]
    unsupported = [
        f"{name} uses {protocol}"
        for name, protocol in named.items()
        if protocol not in (None, "PLAINTEXT")
    ]
    reasons = []
    if missing:
        reasons.append(f"it has no protocol for listener {', '.join(missing)}")
    if unsupported:
        reasons.append(
            f"listener {', '.join(unsupported)}, but Kavka speaks PLAINTEXT only so far "
            "(TLS and SASL come with a later version)"
        )
    return "; ".join(reasons)


def check_ports(listeners: Sequence[Listener]) -> None:
    """Raises ValueError if two listeners have the same port.

    One on an IPv4 address and one on an IPv6 address may share it (KIP-797).
    """
    by_port: dict[int, Listener] = {}
    for listener in listeners:
        other = by_port.setdefault(listener.port, listener)
        if other is listener or listener.port == 0:
            continue
        if not (_is_pair(other.host, listener.host) or _is_pair(listener.host, other.host)):
            raise ValueError(
                f"listeners {other.name} and {listener.name} have the same port {listener.port}"
            )


def _is_pair(first: str, second: str) -> bool:
    numbers = first.split(".")
    return len(numbers) == 4 and all(map(str.isdecimal, numbers)) and ":" in second


def check_advertised(advertised: Sequence[Listener], listeners: Sequence[Listener]) -> None:
    """Raises ValueError for unknown listener names, and addresses that clients can't connect to."""
    names = [listener.name for listener in listeners]
    wrong = []
    for listener in advertised:
        if listener.name not in names:
            wrong.append(f"{listener.name} is not among the listeners {', '.join(names)}")
        if listener.host in ("0.0.0.0", "::"):
            wrong.append(
                f"clients cannot connect to {listener.host}: set advertised.listeners to an "
                f"address of this machine that they can reach, as {listener.name}://host:port"
            )
    if wrong:
        raise ValueError("; ".join(wrong))

"""Where the broker listens and what it tells clients: `listeners` and `advertised.listeners`."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HOST_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "-%._:")
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Listener:
    """One `NAME://host:port`.

    As a place to listen: host "" is every interface, port 0 a free one of the kernel's choice.
    As an advertised one: host "" is this machine's own name, port 0 the port that was taken.
    """

    name: str
    host: str
    port: int


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...` to protocols by listener name. Raises ValueError."""
    protocols: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in item.rpartition(":"))
        if not colon or not name:
            raise ValueError(f"{item} is not of the form LISTENER:PROTOCOL")
        if protocol not in PROTOCOLS:
            raise ValueError(f"{protocol} is no protocol; there are {', '.join(PROTOCOLS)}")
        protocols[name.upper()] = protocol
    return protocols


def parse_listeners(items: Sequence[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Listeners of the form NAME://host:port, in order. Names are upper-cased.

    Raises ValueError for a wrong form, a name given twice or without protocol, and for protocols
    that Kavka does not speak.
    """
    found: dict[str, Listener] = {}
    for item in items:
        listener = _parse_listener(item)
        if listener.name in found:
            raise ValueError(f"two listeners are named {listener.name}")
        _check_protocol(listener.name, protocols)
        found[listener.name] = listener
    if not found:
        raise ValueError("at least one listener is needed")
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
    """Host, without the brackets of an IPv6 address, and port; None when it is not both."""
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


def _check_protocol(name: str, protocols: Mapping[str, str]) -> None:
    protocol = protocols.get(name)
    if protocol is None:
        raise ValueError(f"listener.security.protocol.map has no protocol for listener {name}")
    if protocol != "PLAINTEXT":
        raise ValueError(
            f"listener {name} uses {protocol}, but Kavka speaks PLAINTEXT only so far; "
            "TLS and SASL come with a later version"
        )


def check_ports(listeners: Sequence[Listener]) -> None:
    """Raises ValueError if two listeners cannot share their port.

    One on an IPv4 address and one on an IPv6 address may (KIP-797).
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
    """Raises ValueError for a name that is not listened on, or an address nobody can reach."""
    names = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.name not in names:
            raise ValueError(f"{listener.name} is not among the listeners {', '.join(names)}")
        if listener.host in ("0.0.0.0", "::"):
            raise ValueError(
                f"clients cannot connect to {listener.host}: set advertised.listeners to an "
                f"address of this machine that they can reach, as {listener.name}://host:port"
            )

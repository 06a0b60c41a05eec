"""`zookeeper.connect`: where ZooKeeper is."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_PORT: Final = 2181


class ZooKeeperServers(NamedTuple):
    """The servers, as (host, port), and the path below which all nodes are ("" for none)."""

    addresses: tuple[tuple[str, int], ...]
    chroot: str


def parse_connect(text: str) -> ZooKeeperServers:
    """Parse host:port, several with commas between, and perhaps a path. ValueError, saying what is
    wrong."""
    hosts, slash, root = text.partition("/")
    addresses = []
    for server in hosts.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or port.endswith("]"):
            host, port = server.strip(), str(DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(
                f"{server.strip()!r} is not host:port, as in host1:2181,host2:2181/kafka"
            )
        addresses.append((host.strip("[]"), int(port)))
    path = (slash + root).rstrip("/")
    if "//" in path:
        raise ValueError(f"the path {path!r} has an empty part")
    return ZooKeeperServers(tuple(addresses), path)

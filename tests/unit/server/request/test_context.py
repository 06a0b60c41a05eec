"""Who asks."""

from __future__ import annotations

import pytest

from kavka.server.request.context import Peer


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1:9092", "/127.0.0.1"),
        ("::1:50000", "/0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329:1", "/2001:db8:0:0:0:ff00:42:8329"),
        ("fe80::1%eth0:1", "/fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_the_client_host_has_javas_form(address: str, host: str) -> None:
    """`java.net.InetAddress.toString` of an address without a name."""
    assert Peer("PLAINTEXT", address).host == host

"""Which settings are valid is judged by Kafka in test_settings; here are the parts."""

from __future__ import annotations

import pytest

from kavka.server.config.listeners import (
    Listener,
    check_advertised,
    check_ports,
    parse_listeners,
    parse_protocol_map,
    unsupported_protocols,
)

PLAIN = {"PLAINTEXT": "PLAINTEXT", "IN": "PLAINTEXT", "OUT": "SSL"}


def test_protocol_map() -> None:
    assert parse_protocol_map(" in : PLAINTEXT, OUT:SASL_SSL,") == {
        "IN": "PLAINTEXT",
        "OUT": "SASL_SSL",
    }


@pytest.mark.parametrize("text", ["IN", "IN:", ":SSL", "IN:TLS", "IN:ssl"])
def test_protocol_map_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_protocol_map(text)


def test_listeners_in_order() -> None:
    assert parse_listeners(["in://[fe80::1%eth0]:0", "PLAINTEXT://a-b.c_d:65535"]) == (
        Listener("IN", "fe80::1%eth0", 0),
        Listener("PLAINTEXT", "a-b.c_d", 65535),
    )


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "at least one listener"),
        (["IN://h:65536"], "IN://h:65536 is not of the form"),
        (["IN://h:-1"], "is not of the form"),
        (["IN://h:٣"], "is not of the form"),
        (["IN://h/x:1"], "is not of the form"),
        (["IN://h:1", "in://h:2"], "two listeners are named IN"),
        (["IN://h:-1", "OUT:1"], "IN://h:-1 is not of .* OUT:1 is not of"),
    ],
)
def test_listeners_refused(items: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_listeners(items)


def test_protocols_that_are_spoken() -> None:
    assert (
        unsupported_protocols([Listener("IN", "h", 1), Listener("PLAINTEXT", "h", 2)], PLAIN) == ""
    )
    wrong = unsupported_protocols([Listener(name, "h", 1) for name in ("WHAT", "OUT", "NO")], PLAIN)
    assert "no protocol for listener WHAT, NO" in wrong
    assert "listener OUT uses SSL, but Kavka speaks PLAINTEXT only so far" in wrong


def test_ports() -> None:
    ipv4, ipv6 = Listener("A", "127.0.0.1", 1), Listener("B", "::1", 1)
    check_ports([ipv4, ipv6])
    check_ports([ipv6, ipv4])
    check_ports([Listener("A", "h", 0), Listener("B", "h", 0)])
    with pytest.raises(ValueError, match="listeners A and C have the same port 1"):
        check_ports([ipv4, Listener("C", "127.0.0.2", 1)])
    with pytest.raises(ValueError, match="listeners A and B have the same port 1"):
        check_ports([Listener("A", "", 1), ipv6])


def test_advertised_addresses_can_be_reached() -> None:
    listeners = [Listener("A", "0.0.0.0", 1)]
    check_advertised([Listener("A", "", 1)], listeners)
    with pytest.raises(ValueError, match="B is not among the listeners A"):
        check_advertised([Listener("B", "h", 1)], listeners)
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ValueError, match=f"connect to {host}: set advertised.listeners"):
            check_advertised([Listener("A", host, 1)], listeners)

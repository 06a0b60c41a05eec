"""Limits on connections as they are written."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.config.address_limits import (
    NO_LIMIT,
    ListenerLimits,
    listener_key,
    parse_overrides,
)

TWO = (
    "listeners=PLAINTEXT://:9092,INSIDE://:9093",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
)


def load(*overrides: str) -> BrokerSettings:
    return BrokerSettings.load(environ={}, overrides=overrides)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("10.0.0.1:5", (("10.0.0.1", 5),)),
        (" host-1.example:5 , ::1:0,", (("host-1.example", 5), ("::1", 0))),
        ("a:1,b:2,a:3", (("a", 3), ("b", 2))),
        (f"a:{NO_LIMIT}", (("a", NO_LIMIT),)),
    ],
)
def test_overrides(text: str, found: tuple[tuple[str, int], ...]) -> None:
    assert parse_overrides(text) == found


@pytest.mark.parametrize(
    "text", ["a", "a:", ":1", "a:x", "a:-1", "a/8:1", "a:1:", f"a:{NO_LIMIT + 1}", "a:١"]
)
def test_what_is_no_override(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:COUNT"):
        parse_overrides(text)
    with pytest.raises(ConfigError) as error:
        load(f"max.connections.per.ip.overrides={text}")
    assert error.value.key == "max.connections.per.ip.overrides"


def test_by_default_nothing_is_limited() -> None:
    assert load().listener_limits == (("PLAINTEXT", ListenerLimits(NO_LIMIT, NO_LIMIT)),)


def test_listeners_have_their_own_limits_or_the_broker_s() -> None:
    settings = load(
        *TWO,
        "max.connections=10",
        "max.connection.creation.rate=20",
        "listener.name.inside.max.connections=3",
        "listener.name.plaintext.max.connection.creation.rate=4",
    )
    assert dict(settings.listener_limits) == {
        "PLAINTEXT": ListenerLimits(10, 4),
        "INSIDE": ListenerLimits(3, 20),
    }
    assert settings.warnings == ()


@pytest.mark.parametrize("name", ["outside", "INSIDE"])
def test_a_limit_of_an_unknown_listener_is_reported(name: str) -> None:
    settings = load(*TWO, f"listener.name.{name}.max.connections=3")
    (warning,) = settings.warnings
    assert f"listener.name.{name}.max.connections" in warning


@pytest.mark.parametrize("setting", ["max.connections", "max.connection.creation.rate"])
def test_a_listener_can_t_have_a_limit_of_none(setting: str) -> None:
    key = listener_key("INSIDE", setting)
    with pytest.raises(ConfigError, match="at least 1") as error:
        load(*TWO, f"{key}=0")
    assert error.value.key == key


def test_no_connections_by_default_only_with_exceptions() -> None:
    with pytest.raises(ConfigError, match=r"overrides is set"):
        load("max.connections.per.ip=0")
    settings = load("max.connections.per.ip=0", "max.connections.per.ip.overrides=a:1")
    assert settings.max_connections_per_ip == 0


def test_memory_for_requests_must_be_enough_for_one() -> None:
    with pytest.raises(ConfigError, match=r"socket\.request\.max\.bytes"):
        load("queued.max.request.bytes=1000")
    for text in ("-1", "0", str(200 << 20)):
        assert load(f"queued.max.request.bytes={text}").queued_max_request_bytes == int(text)


def test_listeners_that_advertise_the_dialled_address_must_exist() -> None:
    settings = load(*TWO, "kavka.advertised.dialled.listeners=inside,INSIDE")
    assert settings.dialled_listeners == ("INSIDE",)
    with pytest.raises(ConfigError, match="OUTSIDE is not among the listeners") as error:
        load(*TWO, "kavka.advertised.dialled.listeners=outside")
    assert error.value.key == "kavka.advertised.dialled.listeners"

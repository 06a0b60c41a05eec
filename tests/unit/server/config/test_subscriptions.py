"""Subscriptions to metrics of clients: whom they mean. What is refused, and the words for it, are
compared with Apache Kafka by the differential test."""

from __future__ import annotations

import pytest

from kavka.server.config.subscriptions import (
    MetricsSubscription,
    subscription,
    validate_subscription,
)
from kavka.wire.errors import ApiError, ErrorCode

CLIENT = {
    "client_instance_id": "b69cc35a-7a54-4790-aa69-cc2bd4ee4538",
    "client_id": "app-1",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.1",
    "client_source_address": "127.0.0.1",
    "client_source_port": "5000",
}


def matching(match: str) -> MetricsSubscription:
    return subscription({"match": match})


def test_defaults() -> None:
    assert subscription({}) == MetricsSubscription((), 300_000, {})
    assert subscription({}).matches({}), "without selectors every client is meant"


@pytest.mark.parametrize(
    ("match", "is_meant"),
    [
        ("client_id=app-1", True),
        ("client_id=app", False),
        ("client_id=app.*", True),
        (" client_id = app-[0-9] ", True),
        ("client_software_name=apache.*,client_software_version=4\\..*", True),
        ("client_software_name=apache.*,client_software_version=3\\..*", False),
        ("client_source_address=127\\.0\\.0\\.1,client_source_port=5000", True),
        ("client_id=no,client_id=app-1", True),
        ("client_id=app-1,client_id=no", False),
    ],
)
def test_all_selectors_have_to_match_in_whole(match: str, is_meant: bool) -> None:
    assert matching(match).matches(CLIENT) is is_meant


def test_what_is_not_known_of_a_client_does_not_match() -> None:
    assert not matching("client_software_name=.*").matches({**CLIENT, "client_software_name": None})


@pytest.mark.parametrize(
    "match", ["client_id=[", "client_id", "client_id=", "id=x", "client_id=a=b"]
)
def test_bad_selectors(match: str) -> None:
    with pytest.raises(ApiError, match="Illegal client matching pattern") as caught:
        validate_subscription("s", {"match": match})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_an_expression_that_would_take_too_much_is_bad() -> None:
    with pytest.raises(ApiError, match="Illegal client matching pattern"):
        matching("client_id=" + "(a?){999}" * 50)


@pytest.mark.parametrize(("interval", "is_good"), [("99", 0), ("100", 1), ("3600000", 1)])
def test_bounds_of_the_interval(interval: str, is_good: int) -> None:
    configs = {"interval.ms": interval}
    if is_good:
        return validate_subscription("s", configs)
    with pytest.raises(ApiError, match="interval must be between 100 and 3600000"):
        validate_subscription("s", configs)


def test_a_name_is_needed() -> None:
    with pytest.raises(ApiError, match="Subscription name can't be empty"):
        validate_subscription("", {})

"""Settings by keyword: their keys, their values, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.server.config import ConfigError
from kavka.testing.settings import broker_settings, given_settings, text_of


def test_keywords_are_keys_with_dots() -> None:
    given = given_settings({}, {"num_partitions": 3, "auto_create_topics_enable": False})
    settings = broker_settings(given)
    assert settings.num_partitions == 3
    assert settings.auto_create_topics_enable is False


def test_a_mapping_has_kafkas_own_keys() -> None:
    settings = broker_settings(given_settings({"log.segment.bytes": 1 << 20}, {}))
    assert settings.topic_defaults.segment_bytes == 1 << 20


def test_a_listeners_own_settings_are_known() -> None:
    given = given_settings({"listener.name.plaintext.max.connections": 5}, {})
    assert given["listener.name.plaintext.max.connections"].value == "5"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (-1, "-1"),
        (0.5, "0.5"),
        ("as it is", "as it is"),
        (Path("/var/data"), "/var/data"),
        (["delete", "compact"], "delete,compact"),
        ((Path("/a"), "/b"), "/a,/b"),
        ([], ""),
        ([1, True], "1,true"),
    ],
)
def test_python_values(value: object, text: str) -> None:
    assert text_of("log.dirs", value, "keyword log_dirs") == text


@pytest.mark.parametrize("value", [None, {"a": 1}, b"1", object(), [None], [["a"]], {1, 2}])
def test_other_values_are_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions=.*keyword num_partitions") as caught:
        given_settings({}, {"num_partitions": value})
    assert caught.value.key == "num.partitions"


@pytest.mark.parametrize(
    ("settings", "keywords", "said"),
    [
        ({}, {"num_partition": 3}, "num_partition: .* did you mean num_partitions"),
        ({"num.partition": 3}, {}, r"num\.partition: .* did you mean num\.partitions"),
        ({}, {"x": 3}, "x: neither Apache Kafka nor Kavka has such a setting$"),
    ],
)
def test_what_is_no_setting_is_refused(
    settings: dict[str, object], keywords: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        given_settings(settings, keywords)


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions is given twice"):
        given_settings({"num.partitions": 1}, {"num_partitions": 2})


def test_a_bad_value_is_refused_as_the_broker_does_naming_the_keyword() -> None:
    with pytest.raises(ConfigError) as caught:
        broker_settings(given_settings({}, {"num_partitions": 0}))
    assert "num.partitions=0 (keyword num_partitions)" in str(caught.value)
    with pytest.raises(ConfigError, match=r"num\.partitions=x \(in settings\)"):
        broker_settings(given_settings({"num.partitions": "x"}, {}))


def test_by_default_it_listens_on_a_free_port_of_this_machine_alone() -> None:
    (listener,) = broker_settings({}).listeners
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "127.0.0.1", 0)
    given = given_settings({"listeners": ["A://127.0.0.1:0", "B://127.0.0.1:0"]}, {})
    given |= given_settings(
        {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
        {"inter_broker_listener_name": "A"},
    )
    assert [listener.name for listener in broker_settings(given).listeners] == ["A", "B"]


def test_the_directory() -> None:
    assert broker_settings({}, "/some/where").log_dirs == ("/some/where",)
    given = given_settings({}, {"log_dirs": ["/a", "/b"]})
    assert broker_settings(given).log_dirs == ("/a", "/b")
    with pytest.raises(ConfigError, match="no comma"):
        broker_settings({}, "/some,where")

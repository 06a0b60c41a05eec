"""Which settings a running broker takes, and what they come to. Messages are Apache Kafka 4.3.1's
where it refuses too; the differential test compares them as well."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.config import dynamic_rules as dynamic
from kavka.server.config.dynamic_rules import (
    NO_DYNAMIC_CONFIGS,
    Dynamic,
    Unsupported,
    check_layer,
    check_size,
    effective_given,
    is_accepted_dynamically,
    usable,
    value_of,
)
from kavka.server.config.rows import Mode, Status
from kavka.server.config.table import broker_row, broker_rows
from kavka.server.config.value_types import BadValue, Type

FIXED = "Cannot update these configs dynamically"
FOR_ONE = "Cannot update these configs at default cluster level, broker id must be specified"


def texts(settings: BrokerSettings, dynamic: Dynamic) -> dict[str, str]:
    return {key: given.value for key, given in effective_given(settings.given, dynamic).items()}


def test_layers_come_on_top_of_the_start() -> None:
    start = BrokerSettings.load(overrides=["log.segment.bytes=2000000", "log.roll.hours=1"])
    both = Dynamic({"log.segment.bytes": "4000000"}, {"log.segment.bytes": "3000000"})
    assert texts(start, both)["log.segment.bytes"] == "4000000"
    of_all = Dynamic({}, {"log.segment.bytes": "3000000"})
    assert texts(start, of_all)["log.segment.bytes"] == "3000000"
    assert texts(start, NO_DYNAMIC_CONFIGS)["log.segment.bytes"] == "2000000"


def test_what_is_set_last_takes_its_synonyms_away() -> None:
    start = BrokerSettings.load(overrides=["log.retention.hours=1", "max.connections=9"])
    found = texts(start, Dynamic({"log.retention.ms": "5"}, {}))
    assert "log.retention.hours" not in found
    own = texts(start, Dynamic({"listener.name.plaintext.max.connections": "5"}, {}))
    assert own["max.connections"] == "9", "another listener may need it"


def test_values_by_key() -> None:
    start = BrokerSettings.load(overrides=["log.segment.bytes=2000000"])
    value = value_of(effective_given(start.given, NO_DYNAMIC_CONFIGS))
    assert value("log.segment.bytes") == 2_000_000
    assert value("num.io.threads") == 8, "a setting without effect has a value too"
    with pytest.raises(KeyError):
        value("no.such")


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"num.partitions": "3", "log.dirs": "x"}, f"{FIXED}: [log.dirs, num.partitions]"),
        ({"listeners": "PLAINTEXT://:1"}, f"{FIXED}: [listeners]"),
        (
            {"ssl.keystore.password": "secret"},
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix: [ssl.keystore.password]",
        ),
        (
            {"log.retention.ms": "x"},
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            {"listener.name.a.max.connections": "x"},
            "Invalid value x for configuration max.connections: Not a number of type INT",
        ),
        (
            {"leader.replication.throttled.rate": "-1"},
            "Invalid value -1 for configuration leader.replication.throttled.rate: "
            "Value must be at least 0",
        ),
        (
            {"log.roll.ms": "0"},
            "requirement failed: log.roll.ms must be greater than or equal to 1",
        ),
    ],
)
@pytest.mark.parametrize("of_one_broker", [True, False])
def test_refused(configs: dict[str, str], message: str, *, of_one_broker: bool) -> None:
    with pytest.raises(BadValue) as caught:
        check_layer(configs, of_one_broker=of_one_broker)
    assert str(caught.value) == message


@pytest.mark.parametrize("key", ["ssl.protocol", "listener.name.a.ssl.key.password"])
def test_refused_for_all_brokers(key: str) -> None:
    with pytest.raises(BadValue) as caught:
        check_layer({key: "x"}, of_one_broker=False)
    assert str(caught.value) == f"{FOR_ONE}: [{key}]"


SECURE = [
    row
    for row in broker_rows()
    if row.status is Status.REFUSED and row.name.startswith(("ssl.", "sasl."))
]


def test_settings_of_secure_listeners() -> None:
    """Taken without effect, as by Apache Kafka; but no secrets, and nothing that is fixed."""
    taken = {row.name for row in SECURE if is_accepted_dynamically(row)}
    assert "sasl.kerberos.min.time.before.relogin" in taken and "ssl.client.auth" in taken
    for row in SECURE:
        secret = row.sensitive or row.type is Type.CLASS
        assert (row.name in taken) is (row.dynamic is Mode.PER_BROKER and not secret), row.name
    for key in ("principal.builder.class", "config.providers"):
        found = broker_row(key)
        assert found is not None
        assert not is_accepted_dynamically(found)


@pytest.mark.parametrize(
    ("key", "text"), [("ssl.protocol", "TLSv1.2"), ("listener.name.a.ssl.keystore.location", "/x")]
)
def test_what_waits_for_a_secure_listener_is_kept_with_a_warning(key: str, text: str) -> None:
    check_layer({key: text}, of_one_broker=True)
    start = BrokerSettings.load()
    settings = start.with_dynamic(Dynamic(broker={key: text}))
    assert settings == start, "nothing lives by it"
    (warning,) = start.warnings_without_effect({key: text})
    assert warning.startswith(f"no effect: {key} (")
    with pytest.raises(ConfigError, match="not supported: TLS"):
        BrokerSettings.load(overrides=["ssl.protocol=TLSv1.2"])


@pytest.mark.parametrize(
    "key",
    ["listener.name.a.ssl.key.password", "sasl.jaas.config", "listener.name.a.sasl.jaas.config"],
)
def test_what_would_not_be_honoured_but_must_be_is_refused(key: str) -> None:
    with pytest.raises(Unsupported, match=f"{key} is not supported: TLS") as caught:
        check_layer({key: "secret"}, of_one_broker=True)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("of_one_broker", [True, False])
def test_taken(*, of_one_broker: bool) -> None:
    check_layer(
        {
            "log.retention.ms": "-1",
            "max.connections": "5",
            "listener.name.a.max.connections": "5",
            "num.io.threads": "9",
            "my.own": "5",
        },
        of_one_broker=of_one_broker,
    )
    check_layer({"ssl.protocol": "TLSv1.3"}, of_one_broker=True)  # its default


def test_what_can_be_in_force_is_sorted_out() -> None:
    stored = {
        "log.segment.bytes": "2000000",
        "log.retention.ms": "x",
        "num.partitions": "3",
        "listener.name.a.sasl.jaas.config": "secret",
    }
    kept, dropped = usable(stored, of_one_broker=True)
    assert kept == {"log.segment.bytes": "2000000"}
    assert set(dropped) == set(stored) - set(kept)
    assert "Not a number" in dropped["log.retention.ms"]
    assert "secret" not in str(dropped)


def test_there_is_a_limit_to_what_one_resource_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic, "CONFIGS_MAX", 3)
    monkeypatch.setattr(dynamic, "CONFIGS_CHARACTERS_MAX", 10)
    check_size({"a": "1234", "b": "123", "c": ""})
    with pytest.raises(BadValue, match="no more than 3 configs"):
        check_size(dict.fromkeys("abcd", ""))
    with pytest.raises(BadValue, match="more than 10 characters"):
        check_size({"a": "1234567890"})

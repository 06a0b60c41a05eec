"""`kavka doctor` names what is wrong with brokers that do not answer, or answer as few do, and with
a broker's log directories."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.api_key import ApiKey

from commands.examining import PATIENT_MS, SOON_MS, config_file, examined
from commands.no_brokers import Handler, listening
from commands.odd_brokers import answering, full_port, of_release, refusing_handshakes, unclear
from kavka.testing import Broker
from support.ports import HOST, free_port
from support.secure_zookeeper import Certificates

NEW = of_release(4, 3)
NOBODY: dict[str, Any] = {"brokers": [], "cluster_id": "c", "controller_id": -1, "topics": []}
NAME, OTHER = "two.test", "127.0.0.2"

# -- what listens there, and does not answer as it should -------------------------------------


def without(*keys: ApiKey) -> Handler:
    return answering({key: found for key, found in NEW.items() if key not in keys})


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (without(ApiKey.Fetch, ApiKey.JoinGroup), "versions/apis-missing"),
        (answering(of_release(0, 10, 2)), "versions/too-old"),
        (unclear, "versions/not-understood"),
        (answering(NEW), "advertised/no-metadata"),
        (answering(NEW, Metadata=NOBODY), "advertised/no-brokers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broker_that_answers_oddly(handler: Handler, problem: str) -> None:
    with listening(handler) as port:
        found = examined(f"{HOST}:{port}")
    assert found.problems == {problem}
    assert found.of(problem.partition("/")[2])["subject"] == f"{HOST}:{port}"


def test_a_listener_that_asks_for_a_login(tmp_path: Path) -> None:
    handshake = {"error_code": 33, "mechanisms": ["SCRAM-SHA-512"]}  # UNSUPPORTED_SASL_MECHANISM
    with listening(answering(NEW, SaslHandshake=handshake)) as port:
        found = examined(f"{HOST}:{port}")
        assert found.problems == {"sasl/login-asked"}
        assert "sasl.mechanism=SCRAM-SHA-512" in found.of("login-asked")["advice"]
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
        path = config_file(tmp_path, settings)
        assert examined(f"{HOST}:{port}", "--command-config", path).problems == {
            "sasl/login-settings"
        }


def test_a_tls_listener_with_no_cipher_in_common(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    path = config_file(
        tmp_path,
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.root,
        },
    )
    with refusing_handshakes(certificates.issue("rsa", f"IP:{HOST}")) as port:
        found = examined(f"{HOST}:{port}", "--command-config", path)
    assert found.problems == {"tls/no-handshake"}


# -- addresses that do not answer --------------------------------------------------------------


def test_nobody_answers() -> None:
    with full_port() as port:
        assert examined(f"{HOST}:{port}", timeout_ms=SOON_MS).problems == {"tcp/no-answer"}


@pytest.mark.parametrize("addresses", [(HOST, OTHER), (OTHER, HOST)], ids=["last", "first"])
def test_one_address_of_a_name_does_not_answer(
    addresses: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = socket.getaddrinfo

    def resolve(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host != NAME:
            return own(host, port, *more, **named)
        return [found for address in addresses for found in own(address, port, *more, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with Broker() as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        assert not examined(f"{HOST}:{port}", timeout_ms=SOON_MS).problems
        with full_port(OTHER, int(port)):
            found = examined(f"{NAME}:{port}", timeout_ms=SOON_MS)
    assert found.problems == {"tcp/some-addresses-silent"}
    assert OTHER in found.of("some-addresses-silent")["found"]


def test_a_broker_sends_clients_where_nobody_answers() -> None:
    inner, outer = free_port(), free_port()
    with (
        full_port() as silent,
        Broker(
            settings={
                "listeners": f"PLAINTEXT://{HOST}:{inner},LOST://{HOST}:{outer}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{inner},LOST://{HOST}:{silent}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOST:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
            }
        ),
    ):
        found = examined(f"{HOST}:{outer}", timeout_ms=SOON_MS)
        assert found.problems == {"advertised/no-answer"}
        assert f"LOST://{HOST}:{outer}" in found.of("no-answer")["advice"]
        assert not examined(f"{HOST}:{inner}", timeout_ms=PATIENT_MS).problems


def test_a_broker_sends_clients_to_another_broker_of_the_cluster() -> None:
    """As behind one address for all brokers. What it answers there is what Apache Kafka's brokers
    do that are asked for the settings of another."""
    error = {"error_code": 42, "error_message": "Unexpected broker id", "resource_type": 4}
    node = {"node_id": 1, "host": HOST, "port": 0, "rack": None}
    alone = {"brokers": [node], "cluster_id": "c", "controller_id": 1, "topics": []}
    refused = {"results": [{**error, "resource_name": "1", "configs": []}]}
    with listening(answering(NEW, Metadata=alone, DescribeConfigs=refused)) as port:
        node["port"] = port
        found = examined(f"{HOST}:{port}")
    assert found.problems == {"advertised/other-broker"}
    assert found.of("other-broker")["subject"] == "broker 1"


# -- log directories --------------------------------------------------------------------------


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "file").touch()
    bad = tmp_path / "file" / "logs"
    with Broker(settings={"log.dirs": [tmp_path / "good", bad]}) as broker:
        found = examined(broker.bootstrap_servers)
    assert found.problems == {"log-dirs/dead"}
    assert found.of("dead")["subject"] == f"broker 1, {bad}"


@pytest.mark.parametrize(
    ("total_mib", "left_mib", "problems"),
    [
        (1 << 20, 0, {"log-dirs/full"}),
        (1 << 20, 8 << 10, {"log-dirs/full"}),
        (1 << 20, 11 << 10, {"log-dirs/nearly-full"}),
        (1 << 20, 53 << 10, set()),
        (2000, 63, {"log-dirs/full"}),
        (2000, 65, {"log-dirs/nearly-full"}),
        (100, 9, {"log-dirs/full"}),
        (100, 11, set()),
    ],
)
def test_how_full_a_disk_is(
    total_mib: int, left_mib: int, problems: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.statvfs

    def statvfs(path: Any) -> os.statvfs_result:
        found = list(own(path))
        found[1:5] = [1 << 20, total_mib, left_mib, left_mib]  # block size, blocks, free ones
        return os.statvfs_result(found)

    with Broker() as broker:
        monkeypatch.setattr(os, "statvfs", statvfs)
        found = examined(broker.bootstrap_servers)
        monkeypatch.undo()
    assert found.problems == problems

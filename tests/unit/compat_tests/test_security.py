"""What drivers are given to reach a broker with TLS and a login, and which clients can't."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any, Final, cast

import pytest

from kavka.compat_tests import security
from kavka.compat_tests.broker import Broker
from kavka.compat_tests.clients.table import CLIENTS, Client
from kavka.compat_tests.driver import Program
from kavka.compat_tests.results import Status
from kavka.compat_tests.scenario import Scenario, Trial
from kavka.compat_tests.security import TOKEN, VARIABLE, Required, required_by
from kavka.compat_tests.suite import Suite
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from support.secure_kafka import login
from support.secure_zookeeper import Certificates
from unit.compat_tests.test_driver import FAKE

PASSWORD: Final = 'open "sesame"'
SCRAM: Final = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": login("SCRAM-SHA-512", "alice", PASSWORD),
    "client.id": "suite",
}


def given(properties: dict[str, str], directory: Path) -> dict[str, Any]:
    """The file that drivers read."""
    (path,) = security.environment(properties, directory).values()
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def test_a_broker_without_security_needs_nothing(tmp_path: Path) -> None:
    assert security.environment({"client.id": "suite"}, tmp_path) == {}
    assert not [*tmp_path.iterdir()]
    assert required_by({}) == Required()


def test_a_login_with_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "made")
    properties = {**SCRAM, "ssl.truststore.location": str(certificates.root)}
    found = given(properties, tmp_path)
    assert found["protocol"] == "SASL_SSL"
    assert (found["mechanism"], found["user"]) == ("SCRAM-SHA-512", "alice")
    assert found["password"] == PASSWORD
    assert found["check_hostname"] is True
    assert (found["certificate"], found["key"]) == (None, None)
    assert found["properties"] == {
        name: text for name, text in properties.items() if name != "client.id"
    }
    ssl.create_default_context(cafile=found["ca"])
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.is_file()} == {0o600}


def test_the_systems_authorities(tmp_path: Path) -> None:
    found = given({**SCRAM, "ssl.endpoint.identification.algorithm": ""}, tmp_path)
    assert (found["ca"], found["check_hostname"]) == (None, False)


def test_a_key_with_a_password_is_opened(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "made")
    own = certificates.issue("client", password="secret")
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(certificates.root),
        "ssl.keystore.location": str(own),
        "ssl.key.password": "secret",
    }
    found = given(properties, tmp_path)
    assert (found["mechanism"], found["user"], found["password"]) == (None, None, None)
    context = ssl.create_default_context()
    context.load_cert_chain(found["certificate"], found["key"], lambda: pytest.fail("it is locked"))


@pytest.mark.parametrize("name", ["security.protocol", "sasl.mechanism", "sasl.jaas.config"])
def test_wrong_settings_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match=name):
        security.environment({**SCRAM, name: "nonsense"}, tmp_path)


@pytest.mark.parametrize(
    ("properties", "required"),
    [
        (SCRAM, Required(tls=True, login="SCRAM-SHA-512")),
        ({**SCRAM, "ssl.truststore.type": "pem"}, Required(True, "SCRAM-SHA-512", pem=True)),
        (
            {
                **SCRAM,
                "security.protocol": "SASL_PLAINTEXT",
                "ssl.truststore.type": "PEM",
                "sasl.jaas.config": login("SCRAM-SHA-512", "id", "hmac", ' tokenauth="true"'),
            },
            Required(login=TOKEN),
        ),
    ],
)
def test_what_is_wanted(properties: dict[str, str], required: Required) -> None:
    assert required_by(properties) == required


@pytest.mark.parametrize(
    ("client", "required", "lack"),
    [
        ("java-4", Required(True, "OAUTHBEARER", pem=True), ""),
        ("java-1.1", Required(True, "GSSAPI"), ""),
        ("java-1.1", Required(tls=True, pem=True), "reads no PEM"),
        ("java-0.9", Required(tls=True), ""),
        ("java-0.9", Required(True, "PLAIN"), "can't log in with PLAIN"),
        ("java-0.8", Required(tls=True), "no TLS"),
        ("kafka-python", Required(True, "SCRAM-SHA-256", pem=True), ""),
        ("kafka-python", Required(True, TOKEN), "can't log in with a delegation token"),
    ],
)
def test_what_a_client_can_do(client: str, required: Required, lack: str) -> None:
    (row,) = (row for row in CLIENTS if row.name == client)
    found = row.access.lack(required)
    assert lack in found
    assert bool(found) == bool(lack)


async def test_a_client_that_cannot_log_in_is_not_started() -> None:
    async def passes(trial: Trial) -> None:
        await trial.driver()

    def install() -> Program:
        raise AssertionError("it was installed")

    broker = Broker("127.0.0.1:1", cast(ClusterClient, None), properties=SCRAM)
    client = Client("old", "Old", "C", install, access=security.NOTHING)
    results = await Suite(broker, 1, lambda *_: None).run([client], [Scenario("a", "", passes)], "")
    (cell,) = results.cells
    assert (cell.status, cell.reason) == (Status.UNAVAILABLE, "the client has no TLS")


async def test_drivers_get_the_file_while_they_run() -> None:
    path = Path()

    async def looks(trial: Trial) -> None:
        nonlocal path
        found = await (await trial.driver()).ask("environment", name=VARIABLE)
        path = Path(found["value"])
        assert json.loads(path.read_text())["user"] == "alice"

    broker = Broker("127.0.0.1:1", cast(ClusterClient, None), properties=SCRAM)
    client = Client("fake", "Fake", "Python", lambda: FAKE)
    results = await Suite(broker, 1, lambda *_: None).run([client], [Scenario("a", "", looks)], "")
    assert [cell.reason for cell in results.cells] == [""]
    assert path.name and not path.exists()

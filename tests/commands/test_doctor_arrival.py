"""`kavka doctor` names what stands where a broker should be, and what is wrong with its TLS."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import no_brokers
from commands.examining import PATIENT_MS, SOON_MS, config_file, examined, shift_clock
from commands.no_brokers import Handler, listening
from kavka.testing import Broker
from support import java
from support.oracle39 import ZooKeeper
from support.ports import HOST, free_port
from support.process import running
from support.secure_zookeeper import Certificates

DAY_MS = 86_400_000


def test_a_name_without_an_address() -> None:
    found = examined("no-such-host.invalid:9092")
    assert found.problems == {"name/unresolvable"}


def test_nothing_listens() -> None:
    found = examined(f"{HOST}:{free_port()}")
    assert found.problems == {"tcp/refused"}


@pytest.mark.parametrize(
    ("handler", "problem", "timeout_ms"),
    [
        (no_brokers.silent, "silent", SOON_MS),
        (no_brokers.closing, "closes", PATIENT_MS),
        (no_brokers.http, "http", SOON_MS),
        (no_brokers.ssh, "ssh", PATIENT_MS),
        (no_brokers.garbage, "not-kafka", PATIENT_MS),
    ],
)
def test_something_else_listens(handler: Handler, problem: str, timeout_ms: int) -> None:
    with listening(handler) as port:
        found = examined(f"{HOST}:{port}", timeout_ms=timeout_ms)
    assert found.problems == {f"protocol/{problem}"}


def test_zookeeper_listens(tmp_path: Path) -> None:
    java.program("java")
    zookeeper = ZooKeeper(tmp_path)
    with running([zookeeper]):
        found = examined(zookeeper.bootstrap, timeout_ms=10_000)  # all of it is waited for
    assert found.problems == {"protocol/zookeeper"}


def test_the_broker_s_own_page_is_http() -> None:
    with Broker(settings={"kavka.http.listener": f"{HOST}:{(port := free_port())}"}):
        found = examined(f"{HOST}:{port}", timeout_ms=SOON_MS)
    assert found.problems == {"protocol/http"}


def test_one_of_several_addresses_is_enough() -> None:
    with Broker() as broker:
        found = examined(f"{HOST}:{free_port()},{broker.bootstrap_servers}")
    assert found.problems == {"tcp/refused"}
    assert found.of("refused")["level"] == "warning"
    assert any(finding["step"] == "retention" for finding in found.findings)


# -- TLS ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextmanager
def secured(server: Path, *, asks_with: Path | None = None) -> Iterator[str]:
    """The address of a broker behind TLS, which it advertises. `asks_with`: an authority; then
    clients need a certificate of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    if asks_with is not None:
        context.load_verify_locations(asks_with)
        context.verify_mode = ssl.CERT_REQUIRED
    inner = free_port()
    with listening(no_brokers.passing_on_to(inner), context) as outer:
        address = f"{HOST}:{outer}"
        settings = {
            "listeners": f"PLAINTEXT://{HOST}:{inner}",
            "advertised.listeners": f"PLAINTEXT://{address}",
        }
        with Broker(settings=settings):
            yield address


def trusting(directory: Path, authority: Path, **more: str) -> Sequence[str]:
    """Options of a client with TLS that believes an authority."""
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return "--command-config", config_file(directory, settings)


def self_signed(directory: Path, name: str, days: int = 90) -> Path:
    """A key and its certificate for 127.0.0.1 that nobody else vouches for."""
    path = directory / f"{name}.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days)),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{HOST}"),
            *("-keyout", str(path), "-out", str(path.with_suffix(".crt"))),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


def test_tls_as_it_should_be(certificates: Certificates, tmp_path: Path) -> None:
    with secured(certificates.issue("good", f"IP:{HOST}")) as address:
        found = examined(address, *trusting(tmp_path, certificates.root))
    assert not found.problems
    assert any(finding["step"] == "retention" for finding in found.findings)


def test_tls_at_a_plain_client(certificates: Certificates) -> None:
    with secured(certificates.issue("plain", f"IP:{HOST}")) as address:
        assert examined(address).problems == {"tls/tls-at-plain-client"}


def test_no_tls_at_a_client_with_tls(certificates: Certificates, tmp_path: Path) -> None:
    with Broker() as broker:
        found = examined(broker.bootstrap_servers, *trusting(tmp_path, certificates.root))
    assert found.problems == {"tls/plain-at-tls-client"}


def test_a_certificate_for_another_name(certificates: Certificates, tmp_path: Path) -> None:
    with secured(certificates.issue("other", "DNS:other.test")) as address:
        found = examined(address, *trusting(tmp_path, certificates.root))
        lax = trusting(tmp_path, certificates.root, ssl_endpoint_identification_algorithm="")
        assert not examined(address, *lax).problems
    assert found.problems == {"tls/other-name"}
    assert "other.test" in found.of("other-name")["found"]


def test_a_certificate_of_an_unknown_authority(certificates: Certificates, tmp_path: Path) -> None:
    stranger = Certificates(tmp_path / "stranger").root
    with secured(certificates.issue("known", f"IP:{HOST}")) as address:
        found = examined(address, *trusting(tmp_path, stranger))
    assert found.problems == {"tls/not-trusted"}


def test_a_certificate_that_signed_itself(certificates: Certificates, tmp_path: Path) -> None:
    own = self_signed(tmp_path, "own")
    with secured(own) as address:
        found = examined(address, *trusting(tmp_path, certificates.root))
        assert not examined(address, *trusting(tmp_path, own.with_suffix(".crt"))).problems
    assert found.problems == {"tls/self-signed"}


@pytest.mark.parametrize(
    ("days", "problem"), [(100, "expired"), (-1, "not-yet-valid"), (85, "expires-soon")]
)
def test_dates_of_a_certificate(
    days: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong on a day before or after a certificate for 90 days was made."""
    own = self_signed(tmp_path, "dated")
    with secured(own) as address:
        shift_clock(monkeypatch, days * DAY_MS)
        found = examined(address, *trusting(tmp_path, own.with_suffix(".crt")))
    assert found.problems == {f"tls/{problem}"}


def test_a_certificate_of_the_client_is_asked_for(
    certificates: Certificates, tmp_path: Path
) -> None:
    server, own = certificates.issue("server", f"IP:{HOST}"), certificates.issue("client")
    with secured(server, asks_with=certificates.root) as address:
        found = examined(address, *trusting(tmp_path, certificates.root))
        shown = trusting(tmp_path, certificates.root, ssl_keystore_location=str(own))
        assert not examined(address, *shown).problems
    assert found.problems == {"tls/client-certificate"}

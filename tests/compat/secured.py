"""An Apache Kafka that wants TLS or a login, and what its clients are given for that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from commands.sessions import kavka
from kavka.compat_tests.security import Required
from kavka.tools.admin import configs
from kavka.tools.admin.command import read_client_properties
from support import java_stores
from support.secure_kafka import PASSWORD, PROTOCOLS, SecureKafka, login

USER = "alice"


class Way(NamedTuple):
    """A listener of SecureKafka, and the mechanism by which clients log in there, if they do."""

    listener: str
    mechanism: str = ""

    @property
    def required(self) -> Required:
        """What a client must be able to do; its stores are Java's own."""
        return Required(PROTOCOLS[self.listener].endswith("SSL"), self.mechanism)


WAYS: Mapping[str, Way] = {
    "SSL": Way("MUTUAL"),
    "SASL_PLAINTEXT": Way("SASL", "SCRAM-SHA-256"),
    "SASL_SSL": Way("BOTH", "SCRAM-SHA-512"),
    "SASL_SSL-PLAIN": Way("BOTH", "PLAIN"),
}


def let_in(broker: SecureKafka, way: Way) -> dict[str, str]:
    """Make the user known, and return the properties of its clients, with stores that each of
    Java's clients reads, back to the oldest with TLS."""
    settings = {"sasl.mechanism": way.mechanism} if way.mechanism else {}
    if way.mechanism:
        settings["sasl.jaas.config"] = login(way.mechanism, USER, PASSWORD)
    if way.mechanism.startswith("SCRAM"):
        line = f"--alter --user {USER} --add-config '{way.mechanism}=[password={PASSWORD}]'"
        assert kavka(configs.TOOL, broker, line).exit_code == 0
    found = read_client_properties(str(broker.client(way.listener, "compat"))) | settings
    for store, made in (("truststore", _trusted), ("keystore", _own)):
        pem = found.pop(f"ssl.{store}.location", None)
        if pem is not None:
            found[f"ssl.{store}.location"] = str(made(Path(pem)))
            found[f"ssl.{store}.password"] = java_stores.PASSWORD
            found[f"ssl.{store}.type"] = "JKS"
    return found


def _trusted(pem: Path) -> Path:
    (pem.parent / "trust.jks").unlink(missing_ok=True)
    return java_stores.trust_store(pem.parent, pem, "JKS")


def _own(pem: Path) -> Path:
    return java_stores.key_store(pem.parent, pem, "JKS")

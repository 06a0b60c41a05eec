"""Apache Kafka that asks who a client is: by passwords, certificates, delegation tokens and JSON
Web Tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support.oracle import ApacheKafka
from support.ports import HOST
from support.secure_zookeeper import Certificates

PASSWORD = 'open "sesame", 1=1'
USERS = ("alice", "bob")
MODULES = "org.apache.kafka.common.security"
PROTOCOLS = {
    "SASL": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "BOTH": "SASL_SSL",
}
"""Its listeners beside the others. MUTUAL is for clients with a certificate; BOTH does not know
SCRAM-SHA-256."""


def quoted(text: str) -> str:
    """As JAAS has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class SecureKafka(ApacheKafka):
    """Each of its listeners with SASL takes PLAIN and SCRAM. SCRAM's users are not there yet.
    SASL takes OAUTHBEARER, with tokens that nobody has signed."""

    certificates: Certificates
    secure_ports: Mapping[str, int] = {}

    def prepare(self) -> None:
        self.certificates = Certificates(self.home / "certificates")
        self.secure_ports = {name: self.ports.take() for name in PROTOCOLS}
        super().prepare()

    def at(self, listener: str) -> str:
        """The address of a listener."""
        return f"{HOST}:{self.secure_ports[listener]}"

    def client(self, listener: str, name: str, **settings: str) -> Path:
        """A file of properties that suit a listener; `_` in names of settings is a dot."""
        found = {"security.protocol": PROTOCOLS[listener]}
        if PROTOCOLS[listener].endswith("SSL"):
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.certificates.root),
            }
        if listener == "MUTUAL":
            own = self.certificates.issue(name, f"IP:{HOST}")
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)}
        return write_properties(self.home / f"{name}.properties", found | dotted(settings))

    def user(self, listener: str, user: str, mechanism: str, password: str = PASSWORD) -> Path:
        """The same for a user."""
        return self.client(
            listener,
            f"{user}-{mechanism}-{listener}",
            sasl_mechanism=mechanism,
            sasl_jaas_config=login(mechanism, user, password),
        )

    def _properties(self, controller_port: int) -> dict[str, str]:
        found = super()._properties(controller_port)
        for key in ("listeners", "advertised.listeners"):
            for name in PROTOCOLS:
                found[key] += f",{name}://{self.at(name)}"
        for name, protocol in PROTOCOLS.items():
            found["listener.security.protocol.map"] += f",{name}:{protocol}"
        users = " ".join(f"user_{user}={quoted(PASSWORD)}" for user in USERS)
        plain = f"{MODULES}.plain.PlainLoginModule required {users};"
        scram = f"{MODULES}.scram.ScramLoginModule required;"
        for name in ("sasl", "both"):
            found[f"listener.name.{name}.plain.sasl.jaas.config"] = _escaped(plain)
            for size in (256, 512):
                found[f"listener.name.{name}.scram-sha-{size}.sasl.jaas.config"] = scram
        bearer = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        found["listener.name.sasl.oauthbearer.sasl.jaas.config"] = bearer
        return {
            **found,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.issue("broker", f"IP:{HOST}")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.root),
            "listener.name.both.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.mutual.ssl.client.auth": "required",
            "delegation.token.secret.key": "secret",
            **self.settings,
        }


def login(mechanism: str, user: str, password: str, more: str = "") -> str:
    """A value of `sasl.jaas.config`."""
    if mechanism == "OAUTHBEARER":
        named = f"unsecuredLoginStringClaim_sub={quoted(user)}"
        return f"{MODULES}.oauthbearer.OAuthBearerLoginModule required {named}{more};"
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    named = f"username={quoted(user)} password={quoted(password)}"
    return f"{MODULES}.{module} required {named}{more};"


def dotted(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings whose names have `_` for a dot, as arguments of Python have them."""
    return {name.replace("_", "."): value for name, value in settings.items()}


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """A file of those that are not empty."""
    lines = (f"{name}={_escaped(value)}\n" for name, value in settings.items() if value)
    path.write_text("".join(lines))
    return path


def _escaped(value: str) -> str:
    """As a properties file has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")

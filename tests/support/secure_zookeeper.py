"""ZooKeepers that ask who a client is, by SASL or by TLS; and certificates for that."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from pathlib import Path

from kazoo.client import KazooClient

from support.oracle39 import ZooKeeper
from support.ports import HOST

USER = "kafka"
PASSWORD = 'a "secret" \\ word'
OPERATOR, OPERATOR_PASSWORD = "super", "operator"


def _super_user() -> str:
    """Java option of a user who may see everything."""
    digest = hashlib.sha1(f"{OPERATOR}:{OPERATOR_PASSWORD}".encode()).digest()
    hashed = base64.b64encode(digest).decode()
    name = "zookeeper.DigestAuthenticationProvider.superDigest"
    return f"-D{name}={OPERATOR}:{hashed}"


class SaslZooKeeper(ZooKeeper):
    """It knows one user by a password; clients without a name are let in, too."""

    def prepare(self) -> None:
        login = self.home / "jaas.conf"
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        login.write_text(f'Server {{ {module} required user_{USER}="{quoted}"; }};\n')
        self.more_options = (f"-Djava.security.auth.login.config={login}", _super_user())
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        self.more_lines = (f"authProvider.sasl={provider}",)
        super().prepare()


class TlsZooKeeper(ZooKeeper):
    """It has a port with TLS, where clients need a certificate, and one without."""

    secure_port = 0
    certificates: Certificates

    def prepare(self) -> None:
        self.certificates = Certificates(self.home / "certificates")
        self.secure_port = self.ports.take()
        own = self.certificates.issue("zookeeper", f"IP:{HOST}")
        self.more_lines = (
            f"secureClientPort={self.secure_port}",
            f"secureClientPortAddress={HOST}",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={own}",
            f"ssl.trustStore.location={self.certificates.root}",
            "ssl.enabledProtocols=TLSv1.2,TLSv1.3",
            "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        )
        self.more_options = (_super_user(),)
        super().prepare()

    def ready_port(self, output: str) -> int | None:
        return self.port if f"bound to port {self.secure_port}" in output else None


class Certificates:
    """An authority, and what it certifies; all in PEM files."""

    def __init__(self, directory: Path, above: Certificates | None = None) -> None:
        """Without one above, it certifies itself."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.root = directory / "authority.pem"
        self._key = directory / "authority.key"
        if above is not None:
            own = above.issue("between", extensions="basicConstraints=critical,CA:TRUE")
            key, _, certificate = own.read_text().partition("-----BEGIN CERTIFICATE-----")
            self._key.write_text(key)
            self.root.write_text(f"-----BEGIN CERTIFICATE-----{certificate}")
            return
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=authority", "-keyout", str(self._key), "-out", str(self.root)),
        )

    def issue(
        self, name: str, alternative: str = "", password: str = "", extensions: str = ""
    ) -> Path:
        """A file with a private key and its certificate, for this name."""
        key, request = self._directory / f"{name}.key", self._directory / f"{name}.csr"
        certificate, both = self._directory / f"{name}.crt", self._directory / f"{name}.pem"
        cipher = ("-passout", f"pass:{password}") if password else ("-nodes",)
        _openssl(
            *("req", "-new", "-newkey", "rsa:2048", *cipher, "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        more = self._directory / f"{name}.ext"
        more.write_text(f"subjectAltName={alternative or f'DNS:{name}'}\n{extensions}\n")
        _openssl(
            *("x509", "-req", "-days", "2", "-in", str(request), "-extfile", str(more)),
            *("-CA", str(self.root), "-CAkey", str(self._key), "-CAcreateserial"),
            *("-out", str(certificate)),
        )
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        return both


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


def operator(port: int) -> KazooClient:
    """A connected client that may see everything."""
    client = KazooClient(
        f"{HOST}:{port}", auth_data=[("digest", f"{OPERATOR}:{OPERATOR_PASSWORD}")]
    )
    client.start(60)
    return client

"""Stores of certificates and keys, as Java's keytool makes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support import java

PASSWORD = "store password"


def keytool(*arguments: str) -> str:
    """What it says. It is run in English, with this password where it asks for one."""
    keytool = Path(java.program("java")).resolve().with_name("keytool")
    command = [str(keytool), "-J-Duser.language=en", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def key_store(
    directory: Path,
    own: Path,
    kind: str,
    *options: str,
    password: str = PASSWORD,
    key_password: str = "",
) -> Path:
    """With the key and the certificates of a PEM file. `kind`: JKS or PKCS12."""
    middle, store = directory / f"{own.stem}.p12", directory / f"{own.stem}.{kind.lower()}"
    for path in (middle, store):
        path.unlink(missing_ok=True)
    command = ["openssl", "pkcs12", "-export", "-in", str(own), "-name", own.stem]
    command += ["-passout", f"pass:{PASSWORD}", "-out", str(middle)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", str(middle), "-srcstoretype", "PKCS12"),
        *("-srcstorepass", PASSWORD, "-srcalias", own.stem, "-destkeystore", str(store)),
        *("-deststoretype", kind, "-deststorepass", password),
        *("-destkeypass", key_password or password, *options),
    )
    return store


def trust_store(
    directory: Path, certificate: Path, kind: str, *options: str, password: str = PASSWORD
) -> Path:
    """Of one certificate in a PEM file; a store that is there gets it added."""
    store = directory / f"trust.{kind.lower()}"
    keytool(
        *("-importcert", "-noprompt", "-file", str(certificate), "-alias", certificate.stem),
        *("-keystore", str(store), "-storetype", kind, "-storepass", password, *options),
    )
    return store

"""A key distribution centre of Kerberos (MIT's krb5kdc), and an Apache Kafka that takes its
tickets."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar

from support.java import missing
from support.oracle import ApacheKafka
from support.ports import HOST
from support.process import BrokerProcess
from support.secure_kafka import dotted, write_properties

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
REALM = "KAVKA.TEST"
NAME = "localhost"
"""What the broker is called: Java asks for a ticket for the name that an address has."""

_INSTALL = "Kerberos: apt-get install krb5-kdc krb5-admin-server libkrb5-dev; pip install gssapi"


@cache
def program(name: str) -> str:
    """Path of one of Kerberos's; without it the test is skipped."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None or importlib.util.find_spec("gssapi") is None:
        missing(_INSTALL)
    return found


class KeyCentre(BrokerProcess):
    """Knows the users of one realm. Everything is in its home."""

    kind: ClassVar[str] = "krb5kdc"
    ready_within_s: ClassVar[float] = 60.0
    exit_codes: ClassVar[Mapping[int, int]] = {signal.SIGTERM: 0, signal.SIGINT: 0}

    def prepare(self) -> None:
        self.port = self.ports.take()
        address = f"{HOST}:{self.port}"
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
            " udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = {address}\n }}\n"
        )
        self._own_config.write_text(
            f"[kdcdefaults]\n kdc_listen = {address}\n kdc_tcp_listen = {address}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.home}/principals\n"
            f"  key_stash_file = {self.home}/stash\n }}\n"
            "[logging]\n kdc = STDERR\n"
        )
        self._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)

    def keytab(self, *principals: str) -> Path:
        """Add principals; a file with their keys."""
        path = self.home / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def tickets(self, principal: str, keytab: Path) -> Path:
        """A file with a ticket for all that the principal may ask for."""
        path = self.home / f"{principal}.tickets"
        self._run("kinit", "-k", "-t", str(keytab), "-c", str(path), principal)
        return path

    @property
    def config(self) -> Path:
        """The file that clients are to read: krb5.conf."""
        return self.home / "krb5.conf"

    def command(self) -> list[str]:
        return [program("krb5kdc"), "-n", "-r", REALM]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self._own_config),
        }

    def ready_port(self, output: str) -> int | None:
        return self.port if "commencing operation" in output else None

    @property
    def _own_config(self) -> Path:
        return self.home / "kdc.conf"

    def _run(self, name: str, *arguments: str) -> None:
        command = [program(name), *arguments]
        done = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


class KerberosKafka(ApacheKafka):
    """It has one more listener, where clients log in by Kerberos. The centre must run."""

    secure_port = 0

    def __init__(self, home: Path, centre: KeyCentre) -> None:
        super().__init__(home)
        self._centre = centre
        self.more_options = (f"-Djava.security.krb5.conf={centre.config}",)

    def prepare(self) -> None:
        self.secure_port = self.ports.take()
        self._keytab = self._centre.keytab(f"kafka/{NAME}")
        super().prepare()

    @property
    def at(self) -> str:
        """The address of that listener."""
        return f"{NAME}:{self.secure_port}"

    def client(self, name: str, module_options: str, **settings: str) -> Path:
        """A file of a Java client's properties; `_` in names of settings is a dot."""
        found = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{MODULE} required {module_options};",
        }
        return write_properties(self.home / f"{name}.properties", found | dotted(settings))

    def _properties(self, controller_port: int) -> dict[str, str]:
        found = super()._properties(controller_port)
        for key in ("listeners", "advertised.listeners"):
            found[key] += f",KERBEROS://{self.at}"
        found["listener.security.protocol.map"] += ",KERBEROS:SASL_PLAINTEXT"
        options = f'useKeyTab=true storeKey=true keyTab="{self._keytab}"'
        return {
            **found,
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.kerberos.gssapi.sasl.jaas.config": (
                f'{MODULE} required {options} principal="kafka/{NAME}@{REALM}";'
            ),
            "sasl.kerberos.service.name": "kafka",
        }

"""A login by Kerberos, by a Java client's settings: the options of Java's Krb5LoginModule."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Final

from kavka.client.kerberos import Kerberos
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.jaas import SETTING

KEYTAB_VERSIONS: Final = (b"\x05\x01", b"\x05\x02")
"""What a keytab begins with."""

SERVICE: Final = "sasl.kerberos.service.name"
EXAMPLE: Final = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'keyTab="/etc/alice.keytab" principal="alice@EXAMPLE.COM";'
)


def kerberos_of(config: Mapping[str, str], options: Mapping[str, str]) -> Kerberos:
    """`options`: those of `sasl.jaas.config`. Failed."""
    service, named = options.get("serviceName"), config.get(SERVICE)
    if not service and not named:
        raise Failed(f"{SERVICE} is needed for a login by Kerberos: mostly it is kafka")
    if service and named and service != named:
        raise Failed(f"{SERVICE}={named}, but {SETTING} has serviceName={service}")
    principal, keytab = options.get("principal", ""), ""
    has_tickets = _is_true(options, "useTicketCache")
    if _is_true(options, "useKeyTab"):
        if not options.get("keyTab") or not principal:
            raise Failed(f"{SETTING} has no keyTab, or no principal: {EXAMPLE}")
        keytab = options["keyTab"].removeprefix("file:")
        if not has_tickets:
            _check_keytab(keytab)
    elif not has_tickets:
        raise Failed(f"{SETTING} has neither useKeyTab=true nor useTicketCache=true: {EXAMPLE}")
    tickets = options.get("ticketCache", "").removeprefix("file:")
    return Kerberos(service or named or "", principal, keytab, has_tickets, tickets, host_name)


def host_name(host: str) -> str:
    """Of an address, as Java looks it up; another host stays as it is."""
    try:
        ipaddress.ip_address(host.strip("[]"))
        return socket.gethostbyaddr(host.strip("[]"))[0]
    except (OSError, ValueError):
        return host


def _check_keytab(path: str) -> None:
    """krb5 says of each fault of it that there are no tickets. Failed."""
    try:
        with open(path, "rb") as file:
            version = file.read(2)
    except (OSError, ValueError) as failure:
        raise Failed(f"the keytab {path} can't be read: {failure}") from failure
    if version not in KEYTAB_VERSIONS:
        raise Failed(f"{path} is no keytab")


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"

"""A login by Kerberos, by a Java client's settings: the options of Java's Krb5LoginModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.client.kerberos import Kerberos
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.jaas import SETTING

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
    principal = options.get("principal", "")
    if _is_true(options, "useKeyTab"):
        if not options.get("keyTab") or not principal:
            raise Failed(f"{SETTING} has no keyTab, or no principal: {EXAMPLE}")
        keytab = options["keyTab"].removeprefix("file:")
        return Kerberos(service or named or "", principal, keytab)
    if not _is_true(options, "useTicketCache"):
        raise Failed(f"{SETTING} has neither useKeyTab=true nor useTicketCache=true: {EXAMPLE}")
    tickets = options.get("ticketCache", "").removeprefix("file:")
    return Kerberos(service or named or "", principal, tickets=tickets)


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"

"""The client's half of SASL GSSAPI (RFC 4752), which is a login by Kerberos.

The library gssapi asks the key distribution centre, which krb5.conf names, for tickets: a step may
wait for the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

NO_SECURITY_LAYER: Final = 1
"""Neither integrity nor confidentiality after the login: Kafka knows nothing else."""


class KerberosFailed(Exception):
    """Why there is no login."""


class Kerberos(NamedTuple):
    """Who the client is, and what the brokers are called."""

    service: str
    """A broker's principal is `service`/its host name."""
    principal: str = ""
    """Of the client; empty: the one that the tickets are for."""
    keytab: str = ""
    """A file with the client's keys; empty if there is none."""
    has_tickets: bool = False
    """There may be tickets already, which are tried before the keytab."""
    tickets: str = ""
    """The file with them; empty: where krb5 keeps them."""
    name_of: Callable[[str], str] = str
    """The name of a broker's host, which may be given by its address: tickets are for names."""


class KerberosClient:
    """One login at one host. KerberosFailed by every step."""

    def __init__(self, kerberos: Kerberos, host: str) -> None:
        try:
            import gssapi  # only with Kerberos
        except (ImportError, OSError) as missing:
            raise KerberosFailed(
                "it needs the library gssapi: pip install 'kavka[kerberos]'"
            ) from missing
        self._gssapi = gssapi
        try:
            service = gssapi.Name(
                f"{kerberos.service}@{kerberos.name_of(host)}", gssapi.NameType.hostbased_service
            )
            self._context = gssapi.SecurityContext(
                name=service,
                creds=self._credentials(kerberos),
                mech=gssapi.MechType.kerberos,
                usage="initiate",
            )
        except gssapi.exceptions.GSSError as failure:
            raise _failed(failure) from failure
        self.is_done = False
        """What the last step returned is the end, once the broker has accepted it."""

    def first(self) -> bytes:
        """What is sent first."""
        return self._step(None)

    def next(self, challenge: bytes) -> bytes:
        """What is sent as the response to what the broker sent."""
        if not self._context.complete:
            return self._step(challenge)
        try:
            offered = self._context.unwrap(challenge).message
            if len(offered) != 4 or not offered[0] & NO_SECURITY_LAYER:
                raise KerberosFailed("the broker insists on a security layer, which Kafka has not")
            chosen = bytes([NO_SECURITY_LAYER, 0, 0, 0])  # as the user that the ticket is for
            response: bytes = self._context.wrap(chosen, False).message
        except self._gssapi.exceptions.GSSError as failure:
            raise _failed(failure) from failure
        self.is_done = True
        return response

    def _step(self, challenge: bytes | None) -> bytes:
        try:
            return self._context.step(challenge) or b""
        except self._gssapi.exceptions.GSSError as failure:
            raise _failed(failure) from failure

    def _credentials(self, kerberos: Kerberos) -> object:
        """From tickets, or else from the keytab. KerberosFailed; GSSError."""
        if kerberos.has_tickets:
            try:
                store = {"ccache": kerberos.tickets} if kerberos.tickets else None
                return self._acquired(kerberos.principal, store)
            except self._gssapi.exceptions.GSSError:
                if not kerberos.keytab:
                    raise
        tickets = f"MEMORY:{kerberos.principal} of {kerberos.keytab}"  # in this process only
        try:
            store = {"client_keytab": kerberos.keytab, "ccache": tickets}
            return self._acquired(kerberos.principal, store)
        except self._gssapi.exceptions.GSSError as failure:
            raise KerberosFailed(
                f"no ticket for {kerberos.principal} by its key in {kerberos.keytab}: "
                f"{_reason(failure)}"
            ) from failure

    def _acquired(self, principal: str, store: Mapping[str, str] | None) -> object:
        name = None
        if principal:
            name = self._gssapi.Name(principal, self._gssapi.NameType.kerberos_principal)
        return self._gssapi.Credentials(name=name, usage="initiate", store=store)


def _failed(failure: Exception) -> KerberosFailed:
    return KerberosFailed(_reason(failure))


def _reason(failure: Exception) -> str:
    """GSSAPI's message has two parts, of which the first often says nothing."""
    minor = str(failure).rpartition("Minor (")[2].partition("): ")[2]
    return (minor or str(failure)).strip().rstrip(".")

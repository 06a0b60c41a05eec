"""The client's half of SASL GSSAPI (RFC 4752), which is a login by Kerberos.

The library gssapi asks the key distribution centre, which krb5.conf names, for tickets: a step may
wait for the network.
"""

from __future__ import annotations

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
    """Of the client; empty: the keytab's first, or the one that the tickets are for."""
    keytab: str = ""
    """A file with the client's keys; empty: it has tickets already."""
    tickets: str = ""
    """Of a client without keytab: the file; empty: where krb5 keeps them."""


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
            service = gssapi.Name(f"{kerberos.service}@{host}", gssapi.NameType.hostbased_service)
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
        """What is sent as the answer to what the broker sent."""
        if not self._context.complete:
            return self._step(challenge)
        try:
            offered = self._context.unwrap(challenge).message
            if len(offered) != 4 or not offered[0] & NO_SECURITY_LAYER:
                raise KerberosFailed("the broker insists on a security layer, which Kafka has not")
            chosen = bytes([NO_SECURITY_LAYER, 0, 0, 0])  # as the user that the ticket is for
            answer: bytes = self._context.wrap(chosen, False).message
        except self._gssapi.exceptions.GSSError as failure:
            raise _failed(failure) from failure
        self.is_done = True
        return answer

    def _step(self, challenge: bytes | None) -> bytes:
        try:
            return self._context.step(challenge) or b""
        except self._gssapi.exceptions.GSSError as failure:
            raise _failed(failure) from failure

    def _credentials(self, kerberos: Kerberos) -> object:
        """None: what krb5 has by default."""
        name = None
        if kerberos.principal:
            kind = self._gssapi.NameType.kerberos_principal
            name = self._gssapi.Name(kerberos.principal, kind)
        store = {}
        if kerberos.keytab:
            tickets = f"MEMORY:{kerberos.principal} of {kerberos.keytab}"  # in this process only
            store = {"client_keytab": kerberos.keytab, "ccache": tickets}
        elif kerberos.tickets:
            store = {"ccache": kerberos.tickets}
        if name is None and not store:
            return None
        return self._gssapi.Credentials(name=name, usage="initiate", store=store or None)


def _failed(failure: Exception) -> KerberosFailed:
    """GSSAPI's message has two parts, of which the first often says nothing."""
    minor = str(failure).rpartition("Minor (")[2].partition("): ")[2]
    return KerberosFailed((minor or str(failure)).strip().rstrip("."))

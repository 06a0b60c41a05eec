"""Logs kafka-python's clients in by Kerberos as the other tools log in: with the keytab and the
principal of a Java client's properties."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.abc import SaslMechanism

from kavka.client.kerberos import Kerberos, KerberosClient, KerberosFailed
from kavka.client.login import GSSAPI


def use_for(kerberos: Kerberos) -> None:
    """Clients that this process makes from now on log in so."""
    register_sasl_mechanism(GSSAPI, partial(KerberosLogin, kerberos), overwrite=True)


class KerberosLogin(SaslMechanism):  # type: ignore[misc]  # kafka-python has no types
    """One exchange. SaslAuthenticationFailedError."""

    def __init__(self, kerberos: Kerberos, *, host: str, **_: Any) -> None:
        try:
            self._client = KerberosClient(kerberos, host)
            self._next: bytes | None = self._client.first()
        except KerberosFailed as failure:
            raise SaslAuthenticationFailedError(str(failure)) from failure

    def auth_bytes(self) -> bytes:
        """What is sent next."""
        assert self._next is not None, "the exchange is over"
        return self._next

    def receive(self, auth_bytes: bytes) -> bool:
        """The broker's answer to it; whether that was the last."""
        try:
            self._next = None if self._client.is_done else self._client.next(auth_bytes)
        except KerberosFailed as failure:
            raise SaslAuthenticationFailedError(str(failure)) from failure
        return self.is_done()

    def is_done(self) -> bool:
        """Whether nothing is to be sent any more."""
        return self._next is None

    def is_authenticated(self) -> bool:
        """Whether the broker has accepted it all."""
        return self._next is None

"""Logs kafka-python's clients in by SCRAM as the other tools log in: by delegation tokens, too
(KIP-48), which its own mechanism can't."""

from __future__ import annotations

import base64
import secrets
from functools import partial
from typing import Any

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.abc import SaslMechanism

from kavka.client.login import NONCE_BYTES, Login
from kavka.client.scram import DIGESTS, ScramClient, ScramFailed


def use_for(login: Login) -> None:
    """If it is by SCRAM, clients that this process makes from now on log in so."""
    if login.mechanism in DIGESTS:
        register_sasl_mechanism(login.mechanism, partial(ScramLogin, login), overwrite=True)


class ScramLogin(SaslMechanism):  # type: ignore[misc]  # kafka-python has no types
    """One exchange. SaslAuthenticationFailedError."""

    def __init__(self, login: Login, **_: Any) -> None:
        nonce = base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        self._scram = ScramClient(
            login.mechanism, login.user, login.password, nonce, is_token=login.is_token
        )
        self._next: bytes | None = self._scram.first()
        self._is_final = False

    def auth_bytes(self) -> bytes:
        """What is sent next."""
        assert self._next is not None, "the exchange is over"
        return self._next

    def receive(self, auth_bytes: bytes) -> bool:
        """The broker's answer to it; whether that was the last."""
        try:
            if self._is_final:
                self._scram.check(auth_bytes)
                self._next = None
            else:
                self._next, self._is_final = self._scram.final(auth_bytes), True
        except ScramFailed as failure:
            raise SaslAuthenticationFailedError(str(failure)) from failure
        return self.is_done()

    def is_done(self) -> bool:
        """Whether nothing is to be sent any more."""
        return self._next is None

    def is_authenticated(self) -> bool:
        """Whether the broker has shown that it knows the password."""
        return self._next is None

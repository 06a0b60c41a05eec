"""Gives kafka-python's clients the tokens of SASL OAUTHBEARER."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.net.sasl.oauth import AbstractTokenProvider

from kavka.client.login import BearerSource


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Each connection begins with a token of its own."""

    def __init__(self, source: BearerSource) -> None:
        self._source = source
        self._extensions: Mapping[str, str] = {}

    def token(self) -> str:
        """The token of the next connection."""
        found = self._source()
        self._extensions = found.extensions
        return found.token

    def extensions(self) -> Mapping[str, str]:
        """What is sent beside the token that was given last."""
        return self._extensions

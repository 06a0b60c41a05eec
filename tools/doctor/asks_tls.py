"""Shakes hands by TLS in several ways, so that each fault of a certificate shows by itself."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.tls import TRUSTED, TRUSTSTORE, own_of, trusted_of
from kavka.tools.doctor import port_protocol
from kavka.tools.doctor.asks_ports import Port, exchange, shake_hands, unverified
from kavka.tools.doctor.certificates import Secured

X509_V_FLAG_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's; Python has no name for it."""


class Trust(NamedTuple):
    """Whom a client believes, and what it shows of itself."""

    context: ssl.SSLContext
    """Does not check names or dates: those are judged by themselves."""
    lenient: ssl.SSLContext
    """Goes on although it does not trust: for what follows, in which nothing secret is sent."""
    source: str
    """Where the authorities come from, in words."""
    shows_own: bool = False
    """It has a certificate of its own."""
    unread: str = ""
    """A file that could not be read, and why."""


def trust_of(config: Mapping[str, str]) -> Trust:
    """By a Java client's settings. Failed if the client's own key can't be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= X509_V_FLAG_NO_CHECK_TIME
    source = str(
        (config.get(TRUSTED) and TRUSTED)
        or config.get(TRUSTSTORE)
        or "this machine's list of authorities"
    )
    unread = ""
    try:
        trusted_of(config).load(context)
    except Failed as failure:
        unread = str(failure)
    lenient = unverified()
    own = own_of(config)
    for ssl_context in (context, lenient):
        own.load(ssl_context)
    return Trust(context, lenient, source, bool(own.key), unread)


async def look_at(port: Port, trust: Trust) -> Secured:
    """The certificate of a port that speaks TLS, and who vouches for it."""
    try:
        shown = await shake_hands(port, trust.lenient)
    except OSError as failure:
        if _asks_for_certificate(failure):
            return Secured("TLS", wants_certificate=True, shown=trust.shows_own)
        return Secured("", str(failure))
    der = shown.getpeercert(binary_form=True)
    certificate, fits_name = await _read(port, der)
    code, distrust = await _distrust(port, trust)
    return Secured(
        shown.version() or "TLS",
        certificate=certificate,
        fits_name=fits_name,
        distrust_code=code,
        distrust=distrust,
        wants_certificate=await _ends_without_certificate(port, trust),
        shown=trust.shows_own,
    )


async def _read(port: Port, der: bytes) -> tuple[Mapping[str, Any] | None, bool]:
    """The parts of a certificate, and whether it is for this host. Python takes a certificate apart
    only if it is trusted: so this one is, for a moment."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=der)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME
    try:
        return (await shake_hands(port, context)).getpeercert(), True
    except ssl.SSLCertVerificationError:
        context.check_hostname = False
    except OSError:  # it asks for a certificate, in TLS 1.2
        return None, True
    try:
        return (await shake_hands(port, context)).getpeercert(), False
    except OSError:
        return None, False


async def _distrust(port: Port, trust: Trust) -> tuple[int, str]:
    """Why the client does not trust the server; 0 if it does."""
    if trust.unread:
        return 0, ""
    try:
        await shake_hands(port, trust.context)
    except ssl.SSLCertVerificationError as failure:
        return failure.verify_code, failure.verify_message
    except OSError:  # not of its certificate
        return 0, ""
    return 0, ""


async def _ends_without_certificate(port: Port, trust: Trust) -> bool:
    """Whether the connection ends as the client shows no certificate: in TLS 1.3 that is said only
    after the handshake, and is lost if something is sent meanwhile."""
    request = port_protocol.request(port_protocol.API_VERSIONS_KEY, 0)
    try:
        if (await exchange(port, request, secured_by=trust.lenient)).data:
            return False
        heard = await exchange(port, b"", secured_by=trust.lenient)
    except OSError as failure:
        return _asks_for_certificate(failure)
    return heard.is_closed and not trust.shows_own  # some servers end it without a word


def _asks_for_certificate(failure: OSError) -> bool:
    """Or does not like the one it was shown."""
    reason = (getattr(failure, "reason", None) or "").upper()
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)


async def inside(port: Port, trust: Trust) -> port_protocol.Heard:
    """What answers Kafka's first request inside TLS. OSError."""
    request = port_protocol.request(port_protocol.API_VERSIONS_KEY, 0)
    return await exchange(port, request, is_framed=True, secured_by=trust.lenient)

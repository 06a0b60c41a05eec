"""How the brokers are reached, as the libraries have it: TLS, the login, the client's id (see
../README.md)."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "KAVKA_COMPAT_SECURITY"
CLIENT_ID = os.environ.get("KAVKA_COMPAT_CLIENT_ID")
LIBRDKAFKA = {
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "key": "ssl.key.location",
    "mechanism": "sasl.mechanism",
    "user": "sasl.username",
    "password": "sasl.password",
}
LOGIN = {
    "mechanism": "sasl_mechanism",
    "user": "sasl_plain_username",
    "password": "sasl_plain_password",
}
FILES = {"ca": "ssl_cafile", "certificate": "ssl_certfile", "key": "ssl_keyfile"}


@cache
def wanted_security() -> Mapping[str, Any]:
    """What the suite asks for; nothing if the brokers want neither TLS nor a login."""
    path = os.environ.get(VARIABLE)
    found: dict[str, Any] = {} if path is None else json.loads(Path(path).read_text())
    return {name: value for name, value in found.items() if value is not None}


def for_librdkafka() -> dict[str, str]:
    security = wanted_security()
    found = {} if CLIENT_ID is None else {"client.id": CLIENT_ID}
    if not security:
        return found
    found |= {LIBRDKAFKA[name]: value for name, value in security.items() if name in LIBRDKAFKA}
    found["security.protocol"] = security["protocol"]
    if "check_hostname" in security:
        check = "https" if security["check_hostname"] else "none"
        found["ssl.endpoint.identification.algorithm"] = check
    return found


def for_kafka_python() -> dict[str, Any]:
    security = wanted_security()
    names = {"protocol": "security_protocol", "check_hostname": "ssl_check_hostname"}
    names |= FILES | LOGIN
    return _named() | {names[name]: value for name, value in security.items() if name in names}


def for_aiokafka() -> dict[str, Any]:
    security = wanted_security()
    names = {"protocol": "security_protocol", **LOGIN}
    found = _named() | {names[name]: value for name, value in security.items() if name in names}
    context = tls_context()
    return found if context is None else {**found, "ssl_context": context}


def _named() -> dict[str, Any]:
    return {} if CLIENT_ID is None else {"client_id": CLIENT_ID}


def tls_context() -> ssl.SSLContext | None:
    """None without TLS."""
    security = wanted_security()
    if not security.get("protocol", "").endswith("SSL"):
        return None
    context = ssl.create_default_context(cafile=security.get("ca"))
    context.check_hostname = security["check_hostname"]
    if "key" in security:
        context.load_cert_chain(security["certificate"], security["key"])
    return context

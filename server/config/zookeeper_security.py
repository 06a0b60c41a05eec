"""How a broker and ZooKeeper trust each other, as the settings say. Imported in clusters only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, TypeAlias

from kavka.server.config.cipher_suites import TLS_1_3, openssl_name
from kavka.server.config.sources import Given
from kavka.server.config.value_types import Value
from kavka.server.config.zookeeper_security_rows import (
    CIPHER_SUITES,
    CLIENT_SOCKET,
    ENABLED_PROTOCOLS,
    IDENTIFICATION,
    KEYSTORE,
    PASSWORD,
    PLAIN_SOCKET,
    PROTOCOL,
    SET_ACL,
    TLS_ENABLE,
    TLS_SOCKET,
    TLS_VERSIONS,
    TRUSTSTORE,
    USERNAME,
    ZOOKEEPER_SECURITY_ROWS,
)

Report: TypeAlias = Callable[[str, str, str], object]
"""Called with a setting, what is wrong with it, and a remedy."""

_TYPES: Final = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12", ".pem": "PEM"}
"""Of key stores, by the ends of their files' names."""

_DEFAULTS: Final = {row.name: row.default for row in ZOOKEEPER_SECURITY_ROWS}


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """TLS with ZooKeeper."""

    keystore: str | None
    keystore_password: str | None = field(repr=False)
    truststore: str | None
    versions: tuple[str, ...]
    ciphers: str | None
    """Those before TLS 1.3, as OpenSSL writes lists of them; None for its defaults."""
    checks_host: bool


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """The broker's name there, what protects its connections, and its nodes."""

    username: str | None
    password: str | None = field(repr=False)
    tls: ZooKeeperTls | None
    sets_acls: bool


def security_of(
    values: Mapping[str, Value], given: Mapping[str, Given], report: Report
) -> ZooKeeperSecurity:
    """What the settings say; what is wrong with them goes to `report`."""
    if (socket := values.get(CLIENT_SOCKET)) not in (None, PLAIN_SOCKET, TLS_SOCKET):
        reason = f"{socket} is a class of Java that does not run here"
        report(CLIENT_SOCKET, reason, given[CLIENT_SOCKET].removal)
    tls = _tls(values, report) if values.get(TLS_ENABLE) else None
    username, password = _text(values, USERNAME), _text(values, PASSWORD)
    if (username is None) != (password is None):
        there, missing = (USERNAME, PASSWORD) if password is None else (PASSWORD, USERNAME)
        report(there, f"needs {missing}", f"set {missing}")
    sets_acls = bool(values.get(SET_ACL))
    if sets_acls and username is None and (tls is None or tls.keystore is None):
        reason = "the broker has no name in ZooKeeper that its nodes could belong to"
        own = f"set {USERNAME}, or {KEYSTORE}.location with {TLS_ENABLE}=true"
        report(SET_ACL, reason, f"{own}, or {given[SET_ACL].removal}")
    return ZooKeeperSecurity(username, password, tls, sets_acls)


def unused_settings(values: Mapping[str, Value]) -> Iterator[str]:
    """A warning about settings of TLS without TLS."""
    unused = [name for name in values if name.startswith("zookeeper.ssl.") and name in _DEFAULTS]
    unused = [name for name in unused if values[name] != _DEFAULTS[name]]
    if unused and not values.get(TLS_ENABLE):
        yield f"no effect: {', '.join(unused)} ({TLS_ENABLE} is not true)"


def _text(values: Mapping[str, Value], key: str) -> str | None:
    value = values.get(key, _DEFAULTS[key])
    return value if isinstance(value, str) else None


def _list(values: Mapping[str, Value], key: str) -> tuple[str, ...]:
    value = values.get(key)
    return value if isinstance(value, tuple) else ()


def _tls(values: Mapping[str, Value], report: Report) -> ZooKeeperTls:
    if values.get(CLIENT_SOCKET) == PLAIN_SOCKET:
        reason = f"has no TLS, but {TLS_ENABLE} is true"
        report(CLIENT_SOCKET, reason, f"set {CLIENT_SOCKET}={TLS_SOCKET}")
    algorithm = (_text(values, IDENTIFICATION) or "").upper()
    if algorithm not in ("HTTPS", ""):
        report(IDENTIFICATION, "must be HTTPS or empty", f"set {IDENTIFICATION}=HTTPS")
    for store in (KEYSTORE, TRUSTSTORE):
        _check_store(values, store, report)
    protocol = _text(values, PROTOCOL) or TLS_VERSIONS[0]
    versions = _list(values, ENABLED_PROTOCOLS) or (protocol,)
    if unknown := [version for version in versions if version not in TLS_VERSIONS]:
        key = ENABLED_PROTOCOLS if ENABLED_PROTOCOLS in values else PROTOCOL
        reason = f"{', '.join(unknown)} is none of {', '.join(TLS_VERSIONS)}"
        report(key, reason, f"set {key}={TLS_VERSIONS[0]}")
        versions = TLS_VERSIONS
    ciphers = None
    if suites := _list(values, CIPHER_SUITES):
        versions, ciphers = _chosen(versions, suites, report)
    return ZooKeeperTls(
        _text(values, f"{KEYSTORE}.location"),
        _text(values, f"{KEYSTORE}.password"),
        _text(values, f"{TRUSTSTORE}.location"),
        versions,
        ciphers,
        algorithm == "HTTPS",
    )


def _check_store(values: Mapping[str, Value], store: str, report: Report) -> None:
    """Only PEM files are read."""
    key = f"{store}.location"
    path = _text(values, key)
    if path is None:
        return
    name = PurePath(path)
    kind = (_text(values, f"{store}.type") or _TYPES.get(name.suffix.lower(), "")).upper()
    if kind == "PEM":
        return
    if not kind:
        report(key, "the name of the file does not say its type", f"set {store}.type=PEM")
        return
    option = "-nodes" if store == KEYSTORE else "-nokeys"
    steps = [f"openssl pkcs12 -in {name.stem}.p12 {option} -out {name.stem}.pem"]
    if kind != "PKCS12":
        into = f"-destkeystore {name.stem}.p12 -deststoretype PKCS12"
        steps.insert(0, f"keytool -importkeystore -srckeystore {name.name} {into}")
    remedy = f"convert it: {'; '.join(steps)}"
    report(key, f"is of type {kind}, and only PEM is read", remedy)


def _chosen(
    versions: tuple[str, ...], suites: tuple[str, ...], report: Report
) -> tuple[tuple[str, ...], str | None]:
    """The versions of TLS for which there are suites, and the suites before TLS 1.3."""
    newer = [name for name in suites if name in TLS_1_3]
    if newer and len(set(newer)) < len(TLS_1_3):
        reason = f"of {', '.join(TLS_1_3)} it must name all or none: they can't be chosen among"
        report(CIPHER_SUITES, reason, "")
    older: list[str] = []
    for name in suites:
        if name not in TLS_1_3:
            try:
                older.append(openssl_name(name))
            except ValueError as failure:
                report(CIPHER_SUITES, str(failure), "")
    has = {"TLSv1.2": bool(older), "TLSv1.3": bool(newer)}
    kept = tuple(version for version in versions if has[version])
    if not kept:
        report(CIPHER_SUITES, f"none of them is of {', '.join(versions)}", "")
    return kept or versions, ":".join(older) or None

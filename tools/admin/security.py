"""Who a tool is, and whom it trusts: the security settings of a Java client's properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.jaas import EXAMPLE, SETTING, jaas_options

if TYPE_CHECKING:
    import ssl

    from kavka.client.login import Login
    from kavka.tools.admin.tls import Material

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TOKEN_OPTION: Final = "tokenauth"


class Security(NamedTuple):
    """What a connection begins with."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None
    material: Material | None = None
    """What `tls` was made of."""


def security_of(config: Mapping[str, str]) -> Security:
    """By these settings. Failed."""
    protocol = config.get(PROTOCOL, PLAINTEXT).strip().upper()
    if protocol not in PROTOCOLS:
        raise Failed(f"{PROTOCOL}={config[PROTOCOL]}: it is one of {', '.join(PROTOCOLS)}")
    tls = material = None
    if protocol.endswith("SSL"):
        from kavka.tools.admin.tls import material_of, tls_context  # only then

        material = material_of(config)
        tls = tls_context(config, material)
    login = login_of(config) if protocol.startswith("SASL") else None
    return Security(tls, login, material)


def login_of(config: Mapping[str, str]) -> Login:
    """The login by SASL. Failed."""
    from kavka.client.login import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, Login  # only then

    mechanism = config.get(MECHANISM, GSSAPI).strip()
    if mechanism not in MECHANISMS:
        given = f"{MECHANISM}={mechanism}" if MECHANISM in config else f"{MECHANISM} is not set"
        raise Failed(f"{given}: Kavka's tools know {', '.join(MECHANISMS)}")
    text = config.get(SETTING)
    if text is None:
        by_default = "" if MECHANISM in config else f" by {GSSAPI}, as {MECHANISM} is not set"
        raise Failed(f"{SETTING} is needed for a login{by_default}: {EXAMPLE}")
    options = jaas_options(text)
    if mechanism == GSSAPI:
        from kavka.tools.admin.kerberos import kerberos_of  # only then

        return Login(mechanism, kerberos=kerberos_of(config, options))
    if mechanism == OAUTHBEARER:
        from kavka.tools.admin.bearer import bearer_source  # only then

        return Login(mechanism, bearer=bearer_source(config, options))
    for name in ("username", "password"):
        if name not in options:
            raise Failed(f"{SETTING} has no {name}: {EXAMPLE}")
    is_token = options.get(TOKEN_OPTION, "").lower() == "true"
    if is_token and mechanism == PLAIN:
        raise Failed(f"{SETTING}: {TOKEN_OPTION} goes with SCRAM only, not with {PLAIN}")
    return Login(mechanism, options["username"], options["password"], is_token)

"""Settings of listeners with TLS or SASL, set by IncrementalAlterConfigs where there is none."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script
from kavka.compat_tests.raw.configs import BROKER, DELETE, SET, Change, in_force, resource

CASES = Cases("IncrementalAlterConfigs")


def altering(on: Ground, change: Change, *, validate_only: bool = False) -> dict[str, Any]:
    """A change of the broker's own settings."""
    whose = resource(BROKER, str(on.broker_id), change)
    return {"resources": [whose], "validate_only": validate_only}


def validated(change: Change) -> Function:
    return lambda on: altering(on, change, validate_only=True)


OF_SECURE_LISTENERS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.kerberos.kinit.cmd": "/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "70000",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.ticket.renew.jitter": "0.1",
    "sasl.kerberos.ticket.renew.window.factor": "0.9",
    "sasl.login.refresh.buffer.seconds": "301",
    "sasl.login.refresh.min.period.seconds": "61",
    "sasl.login.refresh.window.factor": "0.7",
    "sasl.login.refresh.window.jitter": "0.1",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    "ssl.client.auth": "required",
    "ssl.enabled.protocols": "TLSv1.3",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.keymanager.algorithm": "PKIX",
    "ssl.protocol": "TLSv1.2",
    "ssl.provider": "SunJSSE",
    "ssl.secure.random.implementation": "SHA1PRNG",
    "ssl.trustmanager.algorithm": "SunX509",
}
"""Taken from a running broker that has none, where they have no effect."""
OF_ONE_SECURE_LISTENER = {
    "ssl.keystore.location": "/x",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.location": "/x",
    "ssl.truststore.type": "PEM",
}
for key, text in OF_SECURE_LISTENERS.items():
    CASES.add(f"broker, TLS: {key}", validated(Change(key, SET, text)), topics=[])
for key, text in {**OF_SECURE_LISTENERS, **OF_ONE_SECURE_LISTENER}.items():
    change = Change(f"listener.name.plaintext.{key}", SET, text)
    CASES.add(f"broker, TLS: {key} of one listener", validated(change), topics=[])
SECRETS = {
    "a keystore's secret": "listener.name.plaintext.ssl.keystore.password",
    "a login's secret": "sasl.jaas.config",
}
for name, key in SECRETS.items():
    CASES.add(f"broker, TLS: {name}", validated(Change(key, SET, "x")), topics=[])


@CASES.case(topics=[])
def what_counts_for_a_secure_listener_comes_and_goes(on: Ground) -> Script:
    broker, key = str(on.broker_id), "sasl.kerberos.min.time.before.relogin"
    yield on.ask(**altering(on, Change(key, SET, "70000")))
    yield from in_force(on, BROKER, broker, key, "70000")
    yield on.ask(**altering(on, Change(key, DELETE, None)))
    yield from in_force(on, BROKER, broker, key, "60000")

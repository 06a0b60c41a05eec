"""Judges whether a listener asks for a login by SASL, and whether the client would do that."""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.tools.doctor.findings import Finding, error, note, ok
from kavka.tools.doctor.port_protocol import Mechanisms
from kavka.wire.errors import ErrorCode

STEP: Final = "sasl"


class Means(NamedTuple):
    """What the client has for a login."""

    mechanism: str | None
    """None if it would not log in."""
    is_known: bool = False
    """Kavka's tools know the mechanism."""
    unusable: str = ""
    """What is wrong with its settings."""
    distrusts: bool = False
    """It does not trust the certificate, and so sends no password."""

    @property
    def works(self) -> bool:
        """Whether the tools can log in as it would."""
        return self.is_known and not self.unusable and not self.distrusts


def asks_for_login(offered: Mechanisms | None) -> bool:
    """Whether the listener is one of SASL's: others refuse to name mechanisms, or close."""
    expected = (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    return offered is not None and offered.error_code in expected and bool(offered.names)


def judge_login(
    subject: str, offered: Mechanisms | None, means: Means, *, protocol: str
) -> list[Finding]:
    """Whether client and listener agree."""
    mechanism = means.mechanism
    if offered is None or not asks_for_login(offered):
        if mechanism is None:
            return []
        return [
            error(
                STEP,
                "login-not-asked",
                subject,
                f"asks for no login, and the client's security.protocol={protocol} wants one",
                "use the port of a SASL listener, or set security.protocol to "
                f"{'SSL' if protocol.endswith('SSL') else 'PLAINTEXT'}",
            )
        ]
    names = ", ".join(offered.names)
    if mechanism is None:
        secured = "SASL_SSL" if protocol.endswith("SSL") else "SASL_PLAINTEXT"
        return [
            error(
                STEP,
                "login-asked",
                subject,
                f"asks for a login by SASL ({names}), and the client would not log in",
                f"set security.protocol={secured}, sasl.mechanism={offered.names[0]} and "
                "sasl.jaas.config in the file for --command-config, or use another listener",
            )
        ]
    if mechanism not in offered.names:
        return [
            error(
                STEP,
                "mechanism",
                subject,
                f"does not know the client's sasl.mechanism={mechanism}; it knows {names}",
                f"set sasl.mechanism={offered.names[0]}, or add {mechanism} to "
                "sasl.enabled.mechanisms of the broker",
            )
        ]
    asks = f"asks for a login by {mechanism}, as the client has it"
    if means.unusable:
        return [
            error(
                STEP,
                "login-settings",
                subject,
                f"{asks}, but {means.unusable}",
                "mend that in the file for --command-config",
            )
        ]
    if means.works:
        return [ok(STEP, subject, asks)]
    why = "Kavka's tools do not know that"
    if means.distrusts:
        why = "no password is sent to a broker whose certificate is not trusted"
    return [
        note(
            STEP,
            "not-logged-in",
            subject,
            f"{asks}; {why}, so what lies behind it is not checked",
            "mend that first" if means.distrusts else "use another listener for the rest",
        )
    ]


def judge_refusal(subject: str, why: str) -> Finding:
    """The broker has not let the client in."""
    return error(
        STEP,
        "login-refused",
        subject,
        f"does not let the client in: {why}",
        "look at user name and password in sasl.jaas.config of the client, and at the broker's log",
    )

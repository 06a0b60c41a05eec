"""SCRAM credentials of users: what DescribeUserScramCredentials and AlterUserScramCredentials say
of them (KIP-554). Passwords never leave this process: brokers get a salted hash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient, check_answer
from kavka.tools.admin.config_changes import Changes
from kavka.tools.admin.config_entities import USERS, Entities
from kavka.tools.admin.config_reports import Config, Report
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.unserved_apis import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    must_serve,
)
from kavka.tools.java_numbers import INT_MAX
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message


class Mechanism(NamedTuple):
    """A mechanism's number in the protocol, and its hash."""

    number: int
    digest: str


MECHANISMS: Final = {
    "SCRAM-SHA-256": Mechanism(1, "sha256"),
    "SCRAM-SHA-512": Mechanism(2, "sha512"),
}
NAMES: Final = {mechanism.number: name for name, mechanism in MECHANISMS.items()}

ITERATIONS: Final = 4096
ITERATIONS_MIN: Final = 4096
DEFAULT_ITERATIONS: Final = "-1"
SALT_BYTES: Final = 20
CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")


@message
class UserName:
    name: str


@message
class DescribeUserScramCredentialsRequest:
    """`users`: all if empty."""

    users: Sequence[UserName]


@message
class Deletion:
    name: str
    mechanism: int


@message
class Upsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@message
class AlterUserScramCredentialsRequest:
    deletions: Sequence[Deletion]
    upsertions: Sequence[Upsertion]


async def describe(cluster: ClusterClient, found: Entities, report: Report) -> None:
    """Report on each user that has credentials, or on the named one. Failed."""
    api = DESCRIBE_USER_SCRAM_CREDENTIALS
    await must_serve(cluster, api, "SCRAM credentials")
    request = DescribeUserScramCredentialsRequest([UserName(name) for name in found.names])
    response = await cluster.ask_controller(api, request, lambda it: [it.error_code])
    check_answer(response.error_code, response.error_message)
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check_answer(result.error_code, result.error_message)
        report.one_line(
            [(USERS, result.user)],
            f"SCRAM credential configs for user-principal '{result.user}'",
            [
                Config(
                    NAMES.get(credential.mechanism, "UNKNOWN"),
                    f"iterations={credential.iterations}",
                )
                for credential in result.credential_infos
            ],
        )


async def alter(cluster: ClusterClient, user: str, config_changes: Changes, random: Random) -> None:
    """Set and remove credentials of a user, all or none. Failed."""
    api = ALTER_USER_SCRAM_CREDENTIALS
    await must_serve(cluster, api, "SCRAM credentials")
    upsertions = [upsertion(user, *item, random) for item in config_changes.added.items()]
    deletions = [Deletion(user, MECHANISMS[name].number) for name in config_changes.deleted]
    if not user:
        raise Failed("Username must not be empty")
    response = await cluster.ask_controller(
        api,
        AlterUserScramCredentialsRequest(deletions, upsertions),
        lambda it: [result.error_code for result in it.results],
    )
    for result in response.results:
        check_answer(result.error_code, result.error_message)


def upsertion(user: str, name: str, text: str, random: Random) -> Upsertion:
    """A credential as brokers keep it. `text`: [iterations=N,]password=P. Failed."""
    iterations, password = _credential(name, text)
    salt = random.randbytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(MECHANISMS[name].digest, password.encode(), salt, iterations)
    return Upsertion(user, MECHANISMS[name].number, iterations, salt, salted)


def _credential(name: str, text: str) -> tuple[int, str]:
    """The iterations and the password in [iterations=N,password=P]. Failed."""
    found = CREDENTIAL.fullmatch(text)
    if found is None or found[1] in ("", "-"):
        raise Failed(
            f"Invalid credential property {name}={text}: it is [iterations=N,password=PASSWORD] or "
            "[password=PASSWORD]"
        )
    iterations = ITERATIONS if found[1] in (None, DEFAULT_ITERATIONS) else int(found[1])
    if iterations < ITERATIONS_MIN:
        raise Failed(
            f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {name}"
        )
    if iterations > INT_MAX:
        raise Failed(f"Iterations {iterations} is more than the maximum {INT_MAX}")
    if not found[2]:
        raise Failed(f"{name}: Password must not be empty")
    return iterations, found[2]

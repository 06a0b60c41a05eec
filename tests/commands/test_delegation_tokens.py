"""`kavka delegation-tokens` prints what kafka-delegation-tokens prints, with Apache Kafka as the
broker: Kavka has no tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from commands.sessions import Said, apache_kafka, difference, differences, kavka
from kavka.tools.admin import configs, topics
from kavka.tools.admin.delegation_tokens import TOOL
from kavka.tools.console import console_consumer, console_producer
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running
from support.secure_kafka import SecureKafka, login
from support.wait import eventually

TOKEN_COMMAND = "org.apache.kafka.tools.DelegationTokenCommand"

REFUSED = """
    !--create --max-life-time-period -1
    !--create --max-life-time-period -1 --command-config FILE
    --create --max-life-time-period -1
    --create --command-config FILE
    --renew --command-config FILE
    --renew --command-config FILE --hmac aGk=
    --renew --command-config FILE --renew-time-period 1
    --expire --command-config FILE --hmac aGk=
    --expire --command-config FILE --expiry-time-period 1
    --command-config FILE

    --create --describe --max-life-time-period -1 --command-config FILE
    --create --max-life-time-period -1 --hmac aGk= --command-config FILE
    --create --max-life-time-period -1 --renew-time-period 1 --command-config FILE
    --create --max-life-time-period -1 --expiry-time-period 1 --command-config FILE
    --create --max-life-time-period soon --command-config FILE
    --create --max-life-time-period --command-config FILE
    --create --max-life-time-period 9223372036854775808 --command-config FILE
    --create --max-life-time-period 1 --owner-principal alice --command-config FILE
    --create --max-life-time-period 1 --renewer-principal alice --command-config FILE
    --renew --hmac aGk= --renew-time-period 1 --renewer-principal User:a --command-config FILE
    --renew --hmac aGk= --renew-time-period 1 --owner-principal User:a --command-config FILE
    --renew --hmac aGk= --renew-time-period 1 --max-life-time-period 1 --command-config FILE
    --renew --hmac aGk= --renew-time-period 1 --expiry-time-period 1 --command-config FILE
    --renew --hmac aGk= --renew-time-period --command-config FILE
    --renew --hmac aGk= --hmac aGk= --renew-time-period 1 --command-config FILE
    --expire --hmac aGk= --expiry-time-period 1 --owner-principal User:a --command-config FILE
    --expire --hmac aGk= --expiry-time-period 1 --max-life-time-period 1 --command-config FILE
    --expire --hmac aGk= --expiry-time-period 1 --renew-time-period 1 --command-config FILE
    --describe --hmac aGk= --command-config FILE
    --describe --max-life-time-period 1 --command-config FILE
    --describe --renew-time-period 1 --command-config FILE
    --describe --expiry-time-period 1 --command-config FILE
    --describe --owner-principal alice --command-config FILE
    --describe --command-config FILE.none
    --describe --nonsense --command-config FILE
"""

BY_NOBODY = """
    --create --max-life-time-period -1 --command-config FILE
    --create --max-life-time-period -1 --renewer-principal User:a --command-config FILE
    --renew --hmac aGk= --renew-time-period -1 --command-config FILE
    --renew --hmac 'a b' --renew-time-period -1 --command-config FILE
    --renew --hmac --renew-time-period -1 --command-config FILE
    --expire --hmac aGk --expiry-time-period -1 --command-config FILE
    --describe --command-config FILE
    --describe --owner-principal User:a --owner-principal User:b --command-config FILE
"""
"""Of a client that has not logged in: what is printed before the broker's answer is the same."""

OF_ALICE = """
    --describe --command-config ALICE
    --create --max-life-time-period -1 --command-config ALICE
    --create --max-life-time-period 3600000 --renewer-principal User:bob --command-config ALICE
    --create --max-life-time-period 9999999999999 {more} --command-config ALICE
    --create --max-life-time-period 1 --renewer-principal Group:bob --command-config ALICE
    --create --max-life-time-period 1 --owner-principal User:bob --command-config BOB
    --create --max-life-time-period 1 --owner-principal --command-config BOB
    --describe --owner-principal User:nobody --command-config ALICE
"""

OF_TOKENS = """
    --describe --command-config ALICE
    --describe --owner-principal User:alice --command-config ALICE
    --describe --owner-principal User:alice --owner-principal User:bob --command-config BOB
    --renew --hmac HMAC0 --renew-time-period -1 --command-config ALICE
    --renew --hmac HMAC0 --renew-time-period 60000 --command-config BOB
    --renew --hmac HMAC1 --renew-time-period 60000 --command-config BOB
    --renew --hmac aGk= --renew-time-period 60000 --command-config ALICE
    --expire --hmac HMAC1 --expiry-time-period 60000 --command-config ALICE
    --expire --hmac HMAC2 --expiry-time-period -1 --command-config BOB
"""
"""Each of the tools with tokens of its own."""

AFTER_EXPIRY = """
    --expire --hmac HMAC2 --expiry-time-period -1 --command-config ALICE
    --expire --hmac HMAC0 --expiry-time-period 1 --renewer-principal a --command-config BOB
    --describe --owner-principal User:alice --command-config ALICE
"""


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_refuse_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    broker = kind(tmp_path / "broker", {})
    config = tmp_path / "client.properties"
    config.write_text("client.id=tokens\n")
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        lines = REFUSED.replace("FILE", str(config))
        found = [*differences(TOOL, TOKEN_COMMAND, tools, [broker, broker], lines)]
        for line in BY_NOBODY.replace("FILE", str(config)).strip().splitlines():
            theirs = apache_kafka(tools, TOKEN_COMMAND, broker, line)
            said = kavka(TOOL, broker, line)
            assert said.stderr.count("\n") == 1, said
            alike = Said(theirs.exit_code, theirs.stdout, said.stderr)
            found += [] if said == alike else [f"{line}\n  {theirs}\n  {said}"]
        assert not found, "\n".join(found)


def test_both_tools_manage_tokens_alike(tmp_path: Path) -> None:
    java.program("java")
    broker = SecureKafka(tmp_path / "broker", {})
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            line = f"--alter --user bob --add-config {mechanism}=[password=secret]"
            assert kavka(configs.TOOL, broker, line).exit_code == 0
        bob = broker.user("SASL", "bob", "SCRAM-SHA-512", "secret")
        alice = broker.user("SASL", "alice", "PLAIN")

        def compare(lines: str, *tokens: Sequence[str]) -> list[str]:
            """Where the tools differ, each with its own tokens."""
            found: list[str] = []
            for line in map(str.strip, lines.strip().splitlines()):
                filled_in = [
                    _filled_in(broker, line, [pair[at] for pair in tokens]) for at in (0, 1)
                ]
                theirs = apache_kafka(tools, TOKEN_COMMAND, broker, filled_in[0])
                found += difference(
                    line, _stable(kavka(TOOL, broker, filled_in[1])), _stable(theirs)
                )
            return found

        found = compare(OF_ALICE.replace("{more}", "--renewer-principal User:bob " * 2))
        # Those that both have made, in the order in which they were made.
        made = _await_tokens(broker, alice, "User:alice", 6)
        _await_tokens(broker, bob, "User:bob", 8)  # four of his own, and four that he may renew
        hmacs = [str(token["hmac"]) for token in made]
        pairs = [hmacs[:2], hmacs[2:4], hmacs[4:6]]
        found += compare(OF_TOKENS, *pairs)
        _await_tokens(broker, alice, "User:alice", 4)
        found += compare(AFTER_EXPIRY, *pairs)
        assert not found, "\n".join(found)
        _check_login(broker, *_tokens(broker, alice, "--create --max-life-time-period -1"))


def _check_login(broker: SecureKafka, token: Mapping[str, object]) -> None:
    """Who has a token is let in, and may not ask for more of them."""
    jaas = login("SCRAM-SHA-256", str(token["tokenId"]), str(token["hmac"]), " tokenauth=true")
    file = broker.client("SASL", "token", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas)
    connected = f"!--bootstrap-server {broker.at('SASL')} --command-config {file}"
    eventually(
        lambda: kavka(topics.TOOL, broker, f"{connected} --list") == Said(0, "\n", ""),
        within_s=60,
        what="the broker knows the token",
    )
    create_topic(broker.bootstrap, "spoken", 1)
    console = f"{connected} --topic spoken"
    assert kavka(console_producer.TOOL, broker, f"{console} <<< one\\n") == Said(0, "", "")
    said = kavka(console_consumer.TOOL, broker, f"{console} --from-beginning --max-messages 1")
    assert (said.exit_code, said.stdout) == (0, "one\n"), said
    said = kavka(TOOL, broker, f"{connected} --describe --owner-principal User:alice")
    assert said.exit_code == 1 and said.stderr.startswith("Only who logs in by SASL, and not with")


def _await_tokens(
    broker: SecureKafka, file: Path, principal: str, count: int
) -> list[Mapping[str, object]]:
    """The tokens of which this is an owner or renewer, as soon as there are so many: a broker knows
    of a token only some time after its creation was acknowledged."""

    def all_of_them() -> list[Mapping[str, object]] | None:
        found = _tokens(broker, file, f"--describe --owner-principal {principal}")
        return found if len(found) == count else None

    return eventually(all_of_them, within_s=60, what=f"the broker knows {count} of {principal}")


def _tokens(broker: SecureKafka, file: Path, line: str) -> list[Mapping[str, object]]:
    connected = f"!--bootstrap-server {broker.at('SASL')} --command-config {file}"
    said = kavka(TOOL, broker, f"{connected} {line} --output json")
    assert said.exit_code == 0, said
    found: list[Mapping[str, object]] = json.loads(said.stdout)["tokens"]
    return sorted(found, key=lambda token: str(token["issueTimeMs"]))


def _filled_in(broker: SecureKafka, line: str, hmacs: Sequence[str]) -> str:
    for number, hmac in enumerate(hmacs):
        line = line.replace(f"HMAC{number}", hmac)
    for name in ("alice-PLAIN", "bob-SCRAM-SHA-512"):
        user = name.partition("-")[0].upper()
        line = line.replace(f"-config {user}", f"-config {broker.home}/{name}-SASL.properties")
    return f"!--bootstrap-server {broker.at('SASL')} {line}"


def _stable(said: Said) -> Said:
    """Without ids, HMACs and times."""
    text = re.sub(r"[\w+/]{86}==", "HMAC", said.stdout)
    text = re.sub(r"\b[\w-]{22}(?=\s)", "ID", text)
    return said._replace(stdout=re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "TIME", text))

"""`kavka acls` prints what kafka-acls prints, on Apache Kafka: Kavka has no ACLs."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from commands.sessions import APPLIED_WITHIN_S, Said, apache_kafka, differences, kavka
from kavka.tools.admin.acls import COLUMNS, TOOL
from support import java
from support.broker import Kavka
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.paths import SOURCE
from support.ports import HOST
from support.process import BrokerProcess, running
from support.wait import eventually

KAVKA = (sys.executable, "-m", "kavka", "acls")
ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

FAILURE = "Error while executing ACL command: "
ALICE = "--allow-principal User:alice --operation Read"
END_OF_INPUT = b"\x04"

LINES = """
    --list
    --add --allow-principal User:alice --operation Read --topic orders
    --add --allow-principal User:alice --operation Read --topic orders
    --list --topic orders
    --add --allow-principal User:bob --allow-principal User:alice --operation READ --topic orders
    --add --allow-principal User:a:b --allow-host 10.0.0.1 --allow-host ' 10.0.0.2 ' --topic orders
    --add --allow-principal ' Group:g' --operation ' describeconfigs' --topic ' orders '
    --add --deny-principal User:* --deny-host * --operation Write --operation Delete --topic *
    --add --deny-principal User:eve --topic orders --topic plain --group g --cluster
    --add --allow-principal User:ann --deny-principal User:eve --operation Describe --group g
    --add --allow-principal User:ann --operation ClusterAction --cluster
    --add --allow-principal User:ann --operation ALTERCONFIGS --cluster
    --add --allow-principal User:ann --operation Write --transactional-id ' t '
    --add --allow-principal User:ann --operation TwoPhaseCommit --transactional-id t
    --add --allow-principal User:ann --operation Describe --delegation-token *
    --add --allow-principal User:ann --operation CreateTokens --user-principal User:bob
    --add --allow-principal User:pre --operation Read --topic or --resource-pattern-type prefixed
    --add --allow-principal User:pre --operation Read --topic or --resource-pattern-type PREFIXED
    --add --allow-principal User:pro --producer --topic orders
    --add --allow-principal User:pro --producer --topic orders --transactional-id t --idempotent
    --add --allow-principal User:con --consumer --topic orders --group g
    --add --allow-principal User:both --allow-host h --producer --consumer --topic x --group g
    --add --allow-principal User:both --producer --consumer --topic y --group g --cluster
    --add --allow-principal User:cl --cluster --topic z --resource-pattern-type prefixed
    --list
    --list --topic orders
    --list --topic nowhere
    --list --topic orders --topic plain --group g
    --list --topic orders --resource-pattern-type any
    --list --topic orders --resource-pattern-type match
    --list --topic or --resource-pattern-type prefixed
    --list --cluster
    --list --cluster --resource-pattern-type any
    --list --group g --operation nonsense --force
    --list --transactional-id t
    --list --delegation-token *
    --list --user-principal User:bob
    --list --principal User:alice
    --list --principal User:alice --principal User:bob --principal User:pro --principal Group:g
    --list --principal User:alice --topic orders
    --list --principal User:none
    --list --principal
    --list --principal --topic plain
    --remove --allow-principal User:alice --operation Read --topic orders --force
    --remove --allow-principal User:alice --operation Read --topic orders --force
    --list --topic orders
    --remove --producer --allow-principal User:pro --topic orders --force
    --remove --topic orders --resource-pattern-type match --operation nonsense --force
    --remove --consumer --topic x --group g --force
    --list
    --remove --topic * --cluster --force
    --remove --deny-principal User:eve --topic plain --group g --force
    --list
    --add --topic ''  --allow-principal User:ann
    --add --topic sp/ce  --allow-principal User:ann
    --add --topic t --allow-principal User:
    --add --topic t --allow-principal ann
    --add --topic t --allow-principal ''
    --list --principal ann
    --list --topic ''
    --remove --topic t --allow-principal ann --force
    --add --topic t --allow-principal User:a --operation Nonsense
    --add --topic t --allow-principal User:a --operation describe_configs
    --add --topic t --allow-principal User:a --operation ClusterAction
    --add --group g --allow-principal User:a --operation Write
    --add --cluster --allow-principal User:a --operation Read
    --add --transactional-id t --allow-principal User:a --operation Read
    --add --delegation-token t --allow-principal User:a --operation Read
    --add --user-principal User:t --allow-principal User:a --operation Read
    --add --cluster --allow-principal User:a --resource-pattern-type prefixed
    --remove --topic t --allow-principal User:a --operation Nonsense --force
    --add --topic t
    --add --topic t --operation Read
    --add --topic t --allow-host h
    --add --allow-principal User:a
    --add --topic t --allow-principal User:a --resource-pattern-type any
    --add --topic t --allow-principal User:a --resource-pattern-type match
    --add --topic t --allow-principal User:a --resource-pattern-type unknown
    --list --resource-pattern-type any --resource-pattern-type match
    --remove --force
    --list --add
    --topic t
    !--bootstrap-server BROKER
    --list --producer
    --list --consumer
    --list --allow-principal User:a
    --list --deny-principal User:a
    --list --allow-host h
    --list --deny-host h
    --add --producer --topic t --allow-principal User:a --operation Read
    --add --producer --topic t --allow-principal User:a --deny-principal User:b
    --add --consumer --topic t --group g --allow-principal User:a --deny-host h
    --add --producer --allow-principal User:a
    --add --consumer --topic t --allow-principal User:a
    --add --consumer --group t --allow-principal User:a
    --add --consumer --topic t --group g --cluster --allow-principal User:a
    --add --consumer --topic t --group g --transactional-id i --allow-principal User:a
    --add --idempotent --topic t --allow-principal User:a
    --add --topic t --allow-principal User:a --principal User:a
    --list --nonsense
    --list --topic
    --list --authorizer kafka.security.authorizer.AclAuthorizer
    --list --authorizer-properties zookeeper.connect=localhost:2181
    --list --zk-tls-config-file FILE
    --list --command-config FILE
    --list --bootstrap-controller BROKER --bootstrap-server BROKER
    --bootstrap-controller CONTROLLER --list --topic plain
    --bootstrap-controller CONTROLLER --add --topic plain --allow-principal User:of
    --bootstrap-controller CONTROLLER --remove --topic plain --allow-principal User:of --force
    !--list
    !--add --topic t --allow-principal User:a
"""
"""Of names of options, `BROKER` is one broker's address and `CONTROLLER` its controller's."""

REFUSED = """
    --add --topic t --allow-principal User:a --operation Any
    --list --resource-pattern-type nonsense
    --list --command-config FILE.none
    --bootstrap-controller BROKER --list
    !--bootstrap-server {nobody} --command-config {impatient} --list
"""
"""What Apache Kafka's refuses with other words, and a stack trace."""

WITHOUT_ACLS = """
    --list
    --add --allow-principal User:alice --operation Read --topic orders
    --remove --topic orders --force
"""

QUESTIONS = (
    ("--remove --topic orders", "yes\n"),
    ("--remove --topic orders --group g", "y\nY\n"),
    ("--remove --topic orders --allow-principal User:alice --operation Read", "y\n"),
    ("--remove --topic orders", "Y\n"),
    ("--remove --topic orders", ""),
)
"""With what is typed; in the end that is the end of it, Control-D."""

BLOCK = re.compile(r"(?m)^(?=Current ACLs|Adding ACLs|Are you sure|Acl )")
SECTION = re.compile(r"(?m)^(?=ACLs for principal)")


def in_order(text: str) -> str:
    """Java gives ACLs and their patterns in an order that differs from run to run."""
    sections = SECTION.split(text.replace("\n \t", "\n \n\t"))
    return "".join(
        block for section in sections for block in sorted(map(_block, BLOCK.split(section)))
    )


def _block(text: str) -> str:
    entries = iter(sorted(line for line in text.split("\n") if line.startswith("\t")))
    return "\n".join(next(entries) if line.startswith("\t") else line for line in text.split("\n"))


def test_both_tools_say_the_same(tmp_path: Path) -> None:
    java.program("java")
    brokers = [ApacheKafka(tmp_path / f"broker-{number}", AUTHORIZER) for number in (1, 2)]
    reads = ("--list", "--bootstrap")
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        lines = _with_files(LINES, tmp_path, brokers[0])
        found = [*differences(TOOL, ACL_COMMAND, tools, brokers, lines, in_order, reads)]
        assert not found, "\n".join(found)
        for line in _lines(_with_files(REFUSED, tmp_path, brokers[0])):
            theirs = apache_kafka(tools, ACL_COMMAND, brokers[0], line)
            assert theirs.exit_code == 1 and theirs.stdout.startswith(FAILURE)
            assert _is_one_sentence(kavka(TOOL, brokers[1], line)), line


def test_both_ask_before_they_remove(tmp_path: Path) -> None:
    java.program("java")
    brokers = [ApacheKafka(tmp_path / f"broker-{number}", AUTHORIZER) for number in (1, 2)]
    with running(brokers):
        for line, text in QUESTIONS:
            for broker in brokers:
                _said(broker, "--add --topic orders --topic plain --group g " + ALICE)
            theirs, ours = (
                _typed(command, brokers[at], line, text)
                for at, command in enumerate((java.command_line(ACL_COMMAND, []), KAVKA))
            )
            if text:
                assert [theirs[0], in_order(theirs[1])] == [ours[0], in_order(ours[1])]
            else:
                assert (theirs[0], ours[0]) == (1, 1) and theirs[1].startswith(ours[1])
            eventually(
                lambda: _said(brokers[0], "--list") == _said(brokers[1], "--list"),
                within_s=APPLIED_WITHIN_S,
                what=f"both have the same ACLs after {line}",
            )


def test_json_and_csv_say_what_the_lines_do(tmp_path: Path) -> None:
    java.program("java")
    broker = ApacheKafka(tmp_path / "broker", AUTHORIZER)
    with running([broker]):
        _said(broker, "--add --topic orders --group g " + ALICE)
        _said(broker, "--add --topic or --resource-pattern-type prefixed --deny-principal User:eve")
        rows = [
            ("TOPIC", "or", "PREFIXED", "User:eve", "*", "ALL", "DENY"),
            ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
            ("GROUP", "g", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
        ]
        expected = {"acls": [dict(zip(COLUMNS, row, strict=True)) for row in rows]}
        eventually(
            lambda: json.loads(_said(broker, "--list --output json")) == expected,
            within_s=APPLIED_WITHIN_S,
            what="all ACLs are listed",
            detail=lambda: _said(broker, "--list --output json"),
        )
        lines = _said(broker, "--list --output csv --principal User:eve --principal User:no")
        assert lines.splitlines() == [",".join(COLUMNS), ",".join(rows[0])]


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_of_a_cluster_without_acls_it_says_so(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    broker = kind(tmp_path / "broker", {})
    says = "This cluster has no ACLs, as its brokers have no authorizer: set"
    if kind is Kavka:
        says = "This cluster has no ACLs: its brokers do not serve D"
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        for line in _lines(WITHOUT_ACLS):
            theirs = apache_kafka(tools, ACL_COMMAND, broker, line)
            assert theirs.exit_code == 1 and theirs.stdout.startswith(FAILURE)
            said = kavka(TOOL, broker, line)
            assert _is_one_sentence(said) and said.stderr.startswith(says), line


def _with_files(lines: str, directory: Path, broker: ApacheKafka) -> str:
    config, impatient = directory / "client.properties", directory / "impatient.properties"
    config.write_text("client.id=acls\n")
    impatient.write_text("default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")
    properties = (broker.home / "server.properties").read_text()
    controller = re.search(r"quorum.bootstrap.servers=(\S+)", properties)
    assert controller is not None
    for name, value in (
        ("FILE", str(config)),
        ("CONTROLLER", controller[1]),
        ("{impatient}", str(impatient)),
        ("{nobody}", f"{HOST}:{broker.ports.take()}"),
    ):
        lines = lines.replace(name, value)
    return lines


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _is_one_sentence(said: Said) -> bool:
    return said.exit_code == 1 and not said.stdout and said.stderr.count("\n") == 1


def _said(broker: BrokerProcess, line: str) -> str:
    said = kavka(TOOL, broker, line)
    assert said.exit_code == 0, said
    return said.stdout


def _typed(command: Sequence[str], broker: BrokerProcess, line: str, text: str) -> tuple[int, str]:
    """Exit code and output of a command on a terminal, on which a text is typed, or Control-D."""
    mine, its = pty.openpty()
    mode = termios.tcgetattr(its)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(its, termios.TCSANOW, mode)
    process = subprocess.Popen(
        [*command, "--bootstrap-server", broker.bootstrap, *shlex.split(line)],
        stdin=its,
        stdout=its,
        stderr=subprocess.DEVNULL,
        env={**java.environment(), "PYTHONPATH": str(SOURCE)},
    )
    try:
        os.close(its)
        os.write(mine, text.encode() or END_OF_INPUT)
        with os.fdopen(mine, "rb", buffering=0) as terminal:
            output = b"".join(iter(lambda: _read(terminal), b""))
        return process.wait(java.TOOL_TIMEOUT_S), output.decode()
    finally:
        process.kill()  # nothing is there any more, unless something has failed
        process.wait()


def _read(terminal: io.RawIOBase) -> bytes:
    """What is printed next; nothing once all have closed the terminal."""
    try:
        return terminal.read(1024) or b""
    except OSError as failure:
        assert failure.errno == errno.EIO
        return b""

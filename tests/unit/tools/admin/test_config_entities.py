"""Which entities a command line names, in Apache Kafka's order, and which lines are refused."""

from __future__ import annotations

import pytest

from kavka.tools.admin.config_entities import Entities, entities
from kavka.tools.admin.configs import OPTIONS, check
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import parse

SERVER = "--bootstrap-server h:1"


@pytest.mark.parametrize(
    ("line", "types", "names"),
    [
        ("--topic t", ["topics"], ["t"]),
        ("--user u --client c", ["clients", "users"], ["c", "u"]),
        ("--entity-type users --entity-type clients", ["users", "clients"], []),
        (
            "--entity-type users --entity-default --entity-type clients --entity-name c",
            ["users", "clients"],
            ["", "c"],
        ),
        ("--user u --client-defaults", ["users", "clients"], ["u", ""]),
        ("--ip-defaults", ["ips"], [""]),
    ],
)
def test_the_entities_of_a_line(line: str, types: list[str], names: list[str]) -> None:
    assert entities(parse(line.split(), OPTIONS)) == Entities(types, names)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--topic t", "exactly one action"),
        ("--describe --alter --topic t", "exactly one action"),
        ("--describe --topic t --delete-config a", r'"\[describe\]" can\'t be used'),
        ("--describe", "At least one entity type"),
        ("--describe --entity-type things", "Invalid entity type things"),
        ("--describe --topic t --user u", "Only 'users' and 'clients'"),
        ("--describe --user u --user-defaults", "Duplicate entity type.* users"),
        ("--describe --user u --entity-type clients", "should not be used in conjunction"),
        ("--describe --topic t --bootstrap-controller h:1", "Only one of --bootstrap-server"),
        ("--describe --broker one", "valid integer broker id, but it is: one"),
        ("--describe --entity-type brokers --entity-name 1.0", "but it is: 1.0"),
        ("--describe --ip [", r"valid IP or resolvable host, but it is: \["),
        ("--describe --entity-type topics --entity-default", "must not be specified"),
        ("--describe --entity-type broker-loggers", "An entity name must be specified"),
        ("--describe --entity-type users --entity-name a --entity-name b", "More entity names"),
        ("--alter --entity-type topics --delete-config a", "with --alter of topics"),
        ("--alter --entity-type ips --delete-config a", "or default entity must be"),
        ("--alter --topic t", "At least one of --add-config"),
        ("--alter --topic t --add-config a=1 --add-config-file f", "Only one of --add-config"),
        (
            "--alter --entity-type users --entity-type clients --entity-name a --delete-config x",
            "for every entity type",
        ),
        ("--alter --ip-defaults --add-config a=1", "connection quota .*: a$"),
        ("--alter --client c --add-config SCRAM-SHA-256=[password=x]", "quota .*: SCRAM-SHA-256$"),
        ("--alter --user u --add-config a=1,b=2", "quota and SCRAM .* added .*: a, b$"),
        ("--alter --user u --delete-config a", "quota and SCRAM .* deleted .*: a$"),
        ("--alter --user-defaults --delete-config SCRAM-SHA-256", "not allowed with User SCRAM"),
        (
            "--alter --user u --delete-config SCRAM-SHA-256,producer_byte_rate",
            "Cannot alter both quota and SCRAM",
        ),
        ("--alter --user u --client c --add-config ,", "no configs to add or to delete"),
    ],
)
def test_a_line_that_makes_no_sense(line: str, why: str) -> None:
    with pytest.raises(Misused, match=why):
        check(parse(f"{SERVER} {line}".split(), OPTIONS))


@pytest.mark.parametrize(
    "line",
    [
        "--describe --topic t",
        "--describe --entity-type users --entity-type clients",
        "--describe --ip 127.0.0.1",
        "--alter --broker-defaults --add-config a=1 --delete-config b",
        "--alter --user u --client-defaults --add-config producer_byte_rate=1",
        "--alter --user u --add-config SCRAM-SHA-256=[password=x]",
        "--alter --user u --add-config ,",
    ],
)
def test_a_line_that_makes_sense(line: str) -> None:
    check(parse(f"{SERVER} {line}".split(), OPTIONS))


@pytest.mark.parametrize("line", ["--describe --broker 1", "--alter --topic t --delete-config a"])
def test_what_controllers_are_asked(line: str) -> None:
    check(parse(f"--bootstrap-controller h:1 {line}".split(), OPTIONS))


@pytest.mark.parametrize(
    "line", ["--describe --topic t", "--alter --user u --add-config producer_byte_rate=1"]
)
def test_what_only_brokers_are_asked(line: str) -> None:
    with pytest.raises(Misused, match="asks brokers: give it --bootstrap-server"):
        check(parse(f"--bootstrap-controller h:1 {line}".split(), OPTIONS))


def test_a_line_without_an_address() -> None:
    with pytest.raises(Misused, match="Either --bootstrap-server or --bootstrap-controller"):
        check(parse("--describe --topic t".split(), OPTIONS))

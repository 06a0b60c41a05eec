"""The ACLs that a command line asks for."""

from __future__ import annotations

import pytest

from kavka.tools.admin.acl_entries import CLUSTER, Entry, Pattern, given_acls, sorted_acls
from kavka.tools.admin.acls import OPTIONS
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import parse

TOPIC = Pattern("TOPIC", "t", "LITERAL")
GROUP = Pattern("GROUP", "g", "LITERAL")


def _given_operations(line: str) -> dict[Pattern, list[str]]:
    """The operations asked for on each pattern."""
    acls = given_acls(parse(line.split(), OPTIONS))
    return {pattern: [entry.operation for entry in entries] for pattern, entries in acls.items()}


def test_roles_have_their_operations() -> None:
    line = "--topic t --group g --transactional-id i --cluster --allow-principal User:a"
    assert _given_operations(f"{line} --producer --consumer --idempotent") == {
        TOPIC: ["READ", "WRITE", "CREATE", "DESCRIBE"],
        GROUP: ["READ"],
        CLUSTER: ["IDEMPOTENT_WRITE"],
        Pattern("TRANSACTIONAL_ID", "i", "LITERAL"): ["WRITE", "DESCRIBE"],
    }
    assert _given_operations(f"{line} --producer")[TOPIC] == ["WRITE", "CREATE", "DESCRIBE"]
    assert list(_given_operations(f"{line} --consumer")) == [TOPIC, GROUP]


def test_without_a_principal_all_entries_of_a_resource_are_meant() -> None:
    assert _given_operations("--topic t --operation nonsense --allow-host h") == {TOPIC: []}


def test_principals_hosts_and_operations_are_combined() -> None:
    line = "--topic t --operation read --operation DescribeConfigs --deny-principal A:b:c"
    acls = given_acls(parse(f"{line} --deny-host h --deny-host i".split(), OPTIONS))
    assert acls[TOPIC] == [
        Entry("A:b:c", host, operation, "DENY")
        for host in ("h", "i")
        for operation in ("READ", "DESCRIBE_CONFIGS")
    ]


@pytest.mark.parametrize(
    "line, failure",
    [
        ("--allow-principal User:a", Misused),
        ("--group g --allow-principal User:a --operation Write", Misused),
        ("--topic t --allow-principal User:a --operation describe_configs", Misused),
        ("--topic t --allow-principal a", Failed),
        ("--cluster --resource-pattern-type prefixed --allow-principal User:a", Misused),
        ("--topic t --resource-pattern-type unknown", Misused),
    ],
)
def test_what_can_not_be_is_refused(line: str, failure: type[Exception]) -> None:
    with pytest.raises(failure):
        _given_operations(line)


def test_acls_are_sorted_each_once() -> None:
    read, write = (Entry("User:a", "*", operation, "ALLOW") for operation in ("READ", "WRITE"))
    found = [(GROUP, read), (TOPIC, write), (TOPIC, read), (TOPIC, write)]
    assert list(sorted_acls(found).items()) == [(TOPIC, [read, write]), (GROUP, [read])]

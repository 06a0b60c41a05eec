"""ACLs: patterns of resources, entries for them, and those that a command line asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Given
from kavka.tools.admin.principals import principals_of

RESOURCE_TYPES: Final = (
    "UNKNOWN",
    "ANY",
    "TOPIC",
    "GROUP",
    "CLUSTER",
    "TRANSACTIONAL_ID",
    "DELEGATION_TOKEN",
    "USER",
)
PATTERN_TYPES: Final = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
OPERATIONS: Final = (
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)
PERMISSIONS: Final = ("UNKNOWN", "ANY", "DENY", "ALLOW")
"""Names by the protocol's numbers."""

UNKNOWN: Final = "UNKNOWN"
ANY: Final = "ANY"
LITERAL: Final = "LITERAL"
SPECIFIC: Final = (LITERAL, "PREFIXED")
"""Types of patterns that an ACL can have; the others choose among ACLs."""

CLUSTER_NAME: Final = "kafka-cluster"
ANY_HOST: Final = "*"

_SUPPORTED: Final[Mapping[str, Sequence[str]]] = {
    "TOPIC": (
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
    ),
    "GROUP": ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "CLUSTER": (
        "CREATE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ),
    "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE", "TWO_PHASE_COMMIT"),
    "DELEGATION_TOKEN": ("DESCRIBE",),
    "USER": ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}
"""What can be allowed or denied on each type of resource, beside ALL."""

_RESOURCES: Final = {
    "topic": "TOPIC",
    "cluster": "CLUSTER",
    "group": "GROUP",
    "transactional-id": "TRANSACTIONAL_ID",
    "delegation-token": "DELEGATION_TOKEN",
    "user-principal": "USER",
}
_TOPIC_OF_PRODUCER: Final = ("WRITE", "DESCRIBE", "CREATE")
_ID_OF_PRODUCER: Final = ("WRITE", "DESCRIBE")
_TOPIC_OF_CONSUMER: Final = ("READ", "DESCRIBE")
_GROUP_OF_CONSUMER: Final = ("READ",)


class Pattern(NamedTuple):
    """The resources that an ACL is for; or a filter for such patterns."""

    resource_type: str
    name: str
    pattern_type: str

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.resource_type}, name={self.name}, "
            f"patternType={self.pattern_type})"
        )


class Entry(NamedTuple):
    """Who may, or may not, do what from where."""

    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation}, "
            f"permissionType={self.permission})"
        )

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What they are printed in the order of: Apache Kafka's order differs from run to run."""
        operation = OPERATIONS.index(self.operation)
        return self.principal, self.host, operation, PERMISSIONS.index(self.permission)


CLUSTER: Final = Pattern("CLUSTER", CLUSTER_NAME, LITERAL)

Acls = dict[Pattern, list[Entry]]
"""Entries by their patterns, in the order in which they are printed."""


def sorted_acls(found: Iterable[tuple[Pattern, Entry]]) -> Acls:
    """Each once, in order."""
    acls: Acls = {}
    for pattern, entry in sorted(found, key=lambda acl: (_pattern_key(acl[0]), acl[1].key)):
        entries = acls.setdefault(pattern, [])
        if entry not in entries:
            entries.append(entry)
    return acls


def pattern_type(given: Given) -> str:
    """That of --resource-pattern-type. Misused if there is none such."""
    text = given.text("resource-pattern-type")
    if text is None:
        return LITERAL
    if text.upper() not in PATTERN_TYPES[1:]:
        raise Misused(f"Unknown resource-pattern-type: {text}")
    return text.upper()


def patterns(given: Given) -> list[Pattern]:
    """Those that the command line names."""
    kind = pattern_type(given)
    found = []
    for option, resource_type in _RESOURCES.items():
        if option == "cluster":
            if kind == LITERAL and (given.has("cluster") or given.has("idempotent")):
                found.append(CLUSTER)
            continue
        for name in given.texts(option):
            shown = name if option == "transactional-id" else name.strip()
            found.append(Pattern(resource_type, shown, kind))
    return list(dict.fromkeys(found))


def given_acls(given: Given) -> Acls:
    """What --add and --remove ask for: no entries of a pattern stand for all. Misused, Failed."""
    named = patterns(given)
    acls: Acls = {}
    if not given.has("producer") and not given.has("consumer"):
        entries = _entries(
            given, [_operation(text) for text in given.texts("operation") or ["All"]]
        )
        acls = dict.fromkeys(named, entries)
    if not named:
        raise Misused(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>"
        )
    if given.has("producer"):
        acls |= _of_producer(given, named)
    if given.has("consumer"):
        for pattern, entries in _of_consumer(given, named).items():
            acls[pattern] = [*acls.get(pattern, ()), *entries]
    for pattern, entries in acls.items():
        _check_operations(pattern, entries)
    return {
        pattern: sorted(dict.fromkeys(acls[pattern]), key=lambda entry: entry.key)
        for pattern in sorted(acls, key=_pattern_key)
    }


def _of_producer(given: Given, named: Sequence[Pattern]) -> Acls:
    operations = {"TOPIC": _TOPIC_OF_PRODUCER, "TRANSACTIONAL_ID": _ID_OF_PRODUCER}
    acls = _of_role(given, named, operations)
    if given.has("idempotent"):
        acls[CLUSTER] = _entries(given, ["IDEMPOTENT_WRITE"])
    return acls


def _of_consumer(given: Given, named: Sequence[Pattern]) -> Acls:
    return _of_role(given, named, {"TOPIC": _TOPIC_OF_CONSUMER, "GROUP": _GROUP_OF_CONSUMER})


def _of_role(
    given: Given, named: Sequence[Pattern], operations: Mapping[str, Sequence[str]]
) -> Acls:
    return {
        pattern: _entries(given, operations[pattern.resource_type])
        for pattern in named
        if pattern.resource_type in operations
    }


def _entries(given: Given, operations: Sequence[str]) -> list[Entry]:
    """Those of all principals, hosts and operations that go together."""
    return [
        Entry(str(principal), host, operation, permission)
        for permission, word in (("ALLOW", "allow"), ("DENY", "deny"))
        for principal in principals_of(given.texts(f"{word}-principal"))
        for host in _hosts(given.texts(f"{word}-host"))
        for operation in operations
    ]


def _hosts(given: Sequence[str]) -> list[str]:
    return [host.strip() for host in given] or [ANY_HOST]


def _operation(text: str) -> str:
    """An operation by its name without underscores."""
    by_name = {name.replace("_", ""): name for name in OPERATIONS}
    return by_name.get(text.strip().upper(), UNKNOWN)


def _check_operations(pattern: Pattern, entries: Sequence[Entry]) -> None:
    supported = (*_SUPPORTED[pattern.resource_type], "ALL")
    if any(entry.operation not in supported for entry in entries):
        names = ", ".join(name.title().replace("_", "") for name in supported)
        raise Misused(f"ResourceType {pattern.resource_type} only supports operations {names}")


def _pattern_key(pattern: Pattern) -> tuple[int, str, int]:
    return (
        RESOURCE_TYPES.index(pattern.resource_type),
        pattern.name,
        PATTERN_TYPES.index(pattern.pattern_type),
    )

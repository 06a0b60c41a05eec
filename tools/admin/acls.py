"""`kavka acls`: as Apache Kafka's kafka-acls, option by option."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Final

from kavka.tools.admin.acl_entries import (
    SPECIFIC,
    Acls,
    Entry,
    given_acls,
    pattern_type,
    patterns,
    sorted_acls,
)
from kavka.tools.admin.acl_requests import create, delete, described
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.java_order import principal_order
from kavka.tools.admin.options import BROKERS, CONTROLLERS, Given, Option
from kavka.tools.admin.principals import Principal, principals_of
from kavka.tools.admin.printing import PROGRAM_FORMS, print_rows

ACTIONS: Final = ("add", "remove", "list")
COLUMNS: Final = (
    "resourceType",
    "resourceName",
    "patternType",
    "principal",
    "host",
    "operation",
    "permissionType",
)

OPTIONS: Final = (
    CONTROLLERS,
    Option("add", "Create ACLs.", text_only=True),
    Option(
        "remove",
        "Remove ACLs: those of the principals named, or all of the resources.",
        text_only=True,
    ),
    Option("list", "Print the ACLs of the resources, or all."),
    Option("topic", "A topic; '*' is a name that stands for all; may be given many times.", "NAME"),
    Option("cluster", "The cluster itself."),
    Option("group", "A group; '*' stands for all.", "NAME"),
    Option("transactional-id", "A transactional id; '*' stands for all.", "ID"),
    Option("delegation-token", "A delegation token; '*' stands for all.", "ID"),
    Option("user-principal", "A user whose delegation tokens are meant.", "TYPE:NAME"),
    Option(
        "resource-pattern-type",
        "How names are meant: literal (the default) or prefixed; to list and remove also any "
        "(patterns of either type that have just this name) or match (all that are about a "
        "resource of this name).",
        "TYPE",
    ),
    Option(
        "operation",
        "What is allowed or denied; All if left out. Read, Write, Create, Delete, Alter, Describe, "
        "ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, CreateTokens, "
        "DescribeTokens or TwoPhaseCommit; may be given many times.",
        "OPERATION",
    ),
    Option("allow-principal", "Who may; User:'*' is everyone.", "TYPE:NAME"),
    Option("deny-principal", "Who may not, whatever else is allowed.", "TYPE:NAME"),
    Option("allow-host", "Where those may connect from; '*' if left out.", "HOST"),
    Option("deny-host", "Where those may not connect from; '*' if left out.", "HOST"),
    Option(
        "principal",
        "Print the ACLs of this principal only; may be given many times.",
        "TYPE:NAME",
        is_optional=True,
    ),
    Option(
        "producer",
        "All that a producer needs: Write, Describe and Create on topics, and on a "
        "transactional id Write and Describe.",
    ),
    Option(
        "consumer", "All that a consumer needs: Read and Describe on topics, and Read on groups."
    ),
    Option("idempotent", "With --producer: also IdempotentWrite on the cluster."),
    Option("force", "Don't ask before ACLs are removed."),
)


def check(given: Given) -> None:
    """Refuse what does not go together, with Apache Kafka's words. Failed."""
    if given.has(BROKERS.name) and given.has(CONTROLLERS.name):
        raise Misused("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if not given.has(BROKERS.name) and not given.has(CONTROLLERS.name):
        raise Misused("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(given.has(action) for action in ACTIONS) != 1:
        raise Misused("Command must include exactly one action: --list, --add, --remove")
    only_for_changes = ("producer", "consumer", "allow-host", "allow-principal")
    given.excludes("list", (*only_for_changes, "deny-host", "deny-principal"))
    for role in ("producer", "consumer"):
        given.excludes(role, ("operation", "deny-principal", "deny-host"))
    if given.has("principal") and not given.has("list"):
        raise Misused("The --principal option is only available if --list is set")
    _check_roles(given)
    kind = pattern_type(given)
    if given.has("list"):
        principals_of(given.texts("principal"))
        return
    if given.has("add") and kind not in SPECIFIC:
        raise Misused(
            f"A '--resource-pattern-type' value of '{kind}' is not valid when adding acls"
        )
    acls = given_acls(given)
    if given.has("add") and not all(acls.values()):
        raise Misused(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs"
        )


def _check_roles(given: Given) -> None:
    if given.has("producer") and not given.has("topic"):
        raise Misused("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        raise Misused("The --idempotent option is only available if --producer is set")
    if given.has("consumer"):
        others = given.has("cluster") or given.has("transactional-id")
        has_all = given.has("topic") and given.has("group")
        if not has_all or (others and not given.has("producer")):
            raise Misused(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified"
            )


async def run(cluster: ClusterClient, given: Given) -> int:
    """Do the one action. Failed."""
    if given.has("add"):
        await _add(cluster, given)
    elif given.has("remove"):
        await _remove(cluster, given)
    else:
        await _list(cluster, given)
    return 0


TOOL: Final = Tool("acls", "List ACLs, add and remove them.", OPTIONS, check, run)


async def _add(cluster: ClusterClient, given: Given) -> None:
    for pattern, entries in given_acls(given).items():
        there = [entry for _, entry in await described(cluster, pattern)]
        for entry in entries:
            if entry in there:
                print(f"Acl (pattern={pattern}, entry={entry}) already exists.")
        new = [entry for entry in entries if entry not in there]
        if new:
            print(f"Adding ACLs for resource `{pattern}`: \n {_lines(new)}\n")
            await create(cluster, pattern, new)


async def _remove(cluster: ClusterClient, given: Given) -> None:
    for pattern, entries in given_acls(given).items():
        question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`?"
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)}\n"
                f" from resource filter `{pattern}`?"
            )
        if given.has("force") or _confirmed(f"{question} (y/n)"):
            await delete(cluster, pattern, entries)


def _confirmed(question: str) -> bool:
    """Whether standard input says yes. Failed at its end."""
    print(question, flush=True)
    # The loop's own handler would wait for the line.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        line = sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    if not line:
        raise Failed("Nothing was answered, so nothing is removed: answer y, or give --force")
    return line.rstrip("\r\n").lower() == "y"


async def _list(cluster: ClusterClient, given: Given) -> None:
    found = []
    for pattern in (*patterns(given),) or (None,):
        found += await described(cluster, pattern)
    acls = sorted_acls(found)
    principals = [
        Principal(*principal)
        for principal in principal_order(principals_of(given.texts("principal")))
    ]
    form = given.text("output")
    if form in PROGRAM_FORMS:
        shown = [str(principal) for principal in principals]
        rows = [
            (*pattern, *entry)
            for pattern, entries in acls.items()
            for entry in entries
            if not shown or entry.principal in shown
        ]
        print_rows("acls", COLUMNS, rows, form)
    elif not principals:
        _print(acls)
    for principal in principals if form not in PROGRAM_FORMS else ():
        print(f"ACLs for principal `{principal}`")
        _print(
            {
                pattern: own
                for pattern, entries in acls.items()
                if (own := [entry for entry in entries if entry.principal == str(principal)])
            }
        )


def _print(acls: Acls) -> None:
    for pattern, entries in acls.items():
        print(f"Current ACLs for resource `{pattern}`:\n{_lines(entries)}\n")


def _lines(entries: Sequence[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)

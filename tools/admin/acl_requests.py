"""What DescribeAcls, CreateAcls and DeleteAcls say of ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.tools.admin.acl_entries import (
    ANY,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    UNKNOWN,
    Entry,
    Pattern,
)
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.unserved_apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS, must_serve
from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

WHAT: Final = "ACLs"


@message
class DescribeAclsRequest:
    """Names that are None stand for any."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@message
class AclCreation:
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@message
class CreateAclsRequest:
    creations: Sequence[AclCreation]


@message
class DeleteAclsRequest:
    """Its filters have the fields of a DescribeAclsRequest."""

    filters: Sequence[DescribeAclsRequest]


async def described(cluster: ClusterClient, pattern: Pattern | None) -> list[tuple[Pattern, Entry]]:
    """The ACLs that a pattern chooses; all without it. Failed."""
    response = await _ask(cluster, DESCRIBE_ACLS, _filter(pattern))
    _check(response)
    return [
        (
            Pattern(
                _name(RESOURCE_TYPES, resource.resource_type),
                resource.resource_name,
                _name(PATTERN_TYPES, resource.pattern_type),
            ),
            Entry(
                acl.principal,
                acl.host,
                _name(OPERATIONS, acl.operation),
                _name(PERMISSIONS, acl.permission_type),
            ),
        )
        for resource in response.resources
        for acl in resource.acls
    ]


async def create(cluster: ClusterClient, pattern: Pattern, entries: Sequence[Entry]) -> None:
    """Create ACLs of one pattern. Failed."""
    resource_type, name, pattern_type = _numbers(pattern)
    creations = [
        AclCreation(resource_type, name, pattern_type, *_entry_fields(entry)) for entry in entries
    ]
    response = await _ask(cluster, CREATE_ACLS, CreateAclsRequest(creations))
    for result in response.results:
        _check(result)


async def delete(cluster: ClusterClient, pattern: Pattern, entries: Sequence[Entry]) -> None:
    """Delete the ACLs that a pattern chooses, with these entries; with any if there are none.
    Failed."""
    filters = [_filter(pattern, entry) for entry in entries] or [_filter(pattern)]
    response = await _ask(cluster, DELETE_ACLS, DeleteAclsRequest(filters))
    for result in response.filter_results:
        _check(result)
        for acl in result.matching_acls:
            _check(acl)


async def _ask(cluster: ClusterClient, api: Api, request: Any) -> Any:
    await must_serve(cluster, api, WHAT)
    return await cluster.ask(api, request)


def _check(result: Any) -> None:
    if result.error_code == ErrorCode.SECURITY_DISABLED:
        raise Failed(
            "This cluster has no ACLs, as its brokers have no authorizer: set "
            "authorizer.class.name on all of them"
        )
    if result.error_code:
        raise Refused(result.error_code, result.error_message)


def _filter(pattern: Pattern | None, entry: Entry | None = None) -> DescribeAclsRequest:
    any_one = RESOURCE_TYPES.index(ANY)
    of_pattern = (any_one, None, any_one) if pattern is None else _numbers(pattern)
    of_entry = (None, None, any_one, any_one) if entry is None else _entry_fields(entry)
    return DescribeAclsRequest(*of_pattern, *of_entry)


def _numbers(pattern: Pattern) -> tuple[int, str, int]:
    return (
        RESOURCE_TYPES.index(pattern.resource_type),
        pattern.name,
        PATTERN_TYPES.index(pattern.pattern_type),
    )


def _entry_fields(entry: Entry) -> tuple[str, str, int, int]:
    operation = OPERATIONS.index(entry.operation)
    return entry.principal, entry.host, operation, PERMISSIONS.index(entry.permission)


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else UNKNOWN

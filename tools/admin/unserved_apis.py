"""The APIs that tools ask and Kavka's brokers do not answer yet."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.wire.api import Api


def _no_answer(request: Any, code: Any, version: int) -> NoReturn:
    raise NotImplementedError("no broker of Kavka answers it")


def _api(key: int, name: str, highest: int, first_flexible: int) -> Api:
    return Api(
        key,
        name,
        versions=(0, highest),
        first_flexible=first_flexible,
        error_response=_no_answer,
    )


DESCRIBE_ACLS: Final = _api(29, "DescribeAcls", 3, 2)
CREATE_ACLS: Final = _api(30, "CreateAcls", 3, 2)
DELETE_ACLS: Final = _api(31, "DeleteAcls", 3, 2)
CREATE_DELEGATION_TOKEN: Final = _api(38, "CreateDelegationToken", 3, 2)
RENEW_DELEGATION_TOKEN: Final = _api(39, "RenewDelegationToken", 2, 2)
EXPIRE_DELEGATION_TOKEN: Final = _api(40, "ExpireDelegationToken", 2, 2)
DESCRIBE_DELEGATION_TOKEN: Final = _api(41, "DescribeDelegationToken", 3, 2)
DESCRIBE_CLIENT_QUOTAS: Final = _api(48, "DescribeClientQuotas", 1, 1)
ALTER_CLIENT_QUOTAS: Final = _api(49, "AlterClientQuotas", 1, 1)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = _api(50, "DescribeUserScramCredentials", 0, 0)
ALTER_USER_SCRAM_CREDENTIALS: Final = _api(51, "AlterUserScramCredentials", 0, 0)


async def must_serve(cluster: ClusterClient, api: Api, feature: str) -> None:
    """Failed, with a sentence that says so, if the cluster does not answer an API. `feature`: what
    it lacks."""
    if not await cluster.serves(api):
        raise Failed(
            f"This cluster has no {feature}: its brokers do not serve {api.name}, as Apache "
            "Kafka's do"
        )

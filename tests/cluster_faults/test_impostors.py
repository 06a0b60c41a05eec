"""A broker that lets a stale producer go on is found."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_faults.impostors import accepted
from kavka.wire.errors import ErrorCode
from support.logs import Producer
from support.transactional import TransactionalProducer

FENCED = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


class Broker:
    """Refuses all requests but some."""

    def __init__(self, code: ErrorCode, *lets: str) -> None:
        self._code = code
        self._lets = lets

    def request(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        code = ErrorCode.NONE if api in self._lets else self._code
        if api == "Produce":
            return {"responses": [{"partition_responses": [{"error_code": code}]}]}
        if api == "AddPartitionsToTxn":
            of_topic = {"results_by_partition": [{"partition_error_code": code}]}
            return {"results_by_topic_v3_and_below": [of_topic]}
        return {"error_code": code, "producer_id": 1, "producer_epoch": 1}


def found(broker: Broker, protocol: int) -> list[str]:
    """What a stale producer could do."""
    stale = TransactionalProducer("zombie", protocol, "t", now=Producer(1, 0, 0))
    return [line.split()[2] for line in accepted(broker, stale, 0)]


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("code", FENCED)
def test_one_that_refuses_everything_is_well(code: ErrorCode, protocol: int) -> None:
    assert found(Broker(code), protocol) == []


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
def test_one_that_lets_it_do_something(api: str, protocol: int) -> None:
    assert found(Broker(FENCED[0], api), protocol) == [api]


def test_one_that_lets_it_begin() -> None:
    assert found(Broker(FENCED[0], "AddPartitionsToTxn"), 1) == ["AddPartitionsToTxn"]

"""How handlers ask the transaction coordinator; with brokers it is in the handlers' tests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.log.journal import Decision
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers.common.transaction_calls import call_coordinator, check_id, client_code
from kavka.server.request.context import Peer, RequestContext
from kavka.txncoord.transaction_requests import NeedsProducerId
from kavka.wire.errors import ApiError, ErrorCode
from support.denied import Denied
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

FENCED_SINCE = 2


class Played:
    """A coordinator that answers, or raises, as the test says, and ids that come when it says."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.reserved: list[asyncio.Future[None]] = []
        self.broker: Any = SimpleNamespace(
            transactions=self,
            producer_ids=self,
            tasks=VirtualTasks(VirtualClock()),
            authorizer=Denied((Operation.WRITE, "secret")),
        )

    def call(self, transactional_id: str, question: object) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def reserve(self) -> None:
        self.reserved.append(asyncio.get_running_loop().create_future())
        await self.reserved[-1]


def context(version: int = FENCED_SINCE) -> RequestContext:
    return RequestContext(Peer("PLAINTEXT", "127.0.0.1:5"), version, 1, None)


def call(played: Played, request_context: RequestContext, transactional_id: str = "tx") -> Any:
    def question(shard: object, reply_future: object, now_ms: int) -> Decision:
        raise AssertionError("the coordinator is played")

    return call_coordinator(
        played.broker,
        request_context,
        transactional_id,
        question,
        lambda answer: f"client_code {answer}",
        lambda code: code,
        fenced_since=FENCED_SINCE,
    )


def test_an_answer_at_once_needs_no_task() -> None:
    assert call(Played("it"), context()) == "client_code it"
    assert call(Played(), context(), "") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)],
)
async def test_old_clients_know_no_fencing(version: int, code: ErrorCode) -> None:
    fenced = ApiError(ErrorCode.PRODUCER_FENCED)
    assert client_code(ErrorCode.PRODUCER_FENCED, context(version), FENCED_SINCE) == code
    assert call(Played(fenced), context(version)) == code
    other = ApiError(ErrorCode.NOT_COORDINATOR)
    assert call(Played(other), context(version)) == ErrorCode.NOT_COORDINATOR
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    answer = call(Played(future), context(version))
    future.set_exception(fenced)
    assert await answer == code


async def test_without_a_producer_id_it_is_asked_again_when_there_is_one() -> None:
    played, request_context = Played(NeedsProducerId(), NeedsProducerId(), "it"), context()
    answer = asyncio.ensure_future(call(played, request_context))
    await run_until_idle()
    assert request_context.applied is not None
    for number in (1, 2):  # others take them all the first time
        assert len(played.reserved) == number
        assert not request_context.applied.done()
        played.reserved[-1].set_result(None)
        await run_until_idle()
    assert request_context.applied.done()
    assert await answer == "client_code it"


@pytest.mark.parametrize("is_later", [False, True])
async def test_what_is_refused_then_is_refused(is_later: bool) -> None:
    refused = ApiError(ErrorCode.PRODUCER_FENCED)
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    played, request_context = Played(NeedsProducerId(), future if is_later else refused), context(1)
    answer = asyncio.ensure_future(call(played, request_context))
    await run_until_idle()
    played.reserved[-1].set_result(None)
    await run_until_idle()
    assert request_context.applied is not None and request_context.applied.done(), (
        "others need not wait for the answer"
    )
    future.set_exception(refused)
    assert await answer == ErrorCode.INVALID_PRODUCER_EPOCH
    future.exception()


async def test_there_are_no_ids_left() -> None:
    played, request_context = Played(NeedsProducerId()), context()
    answer = asyncio.ensure_future(call(played, request_context))
    await run_until_idle()
    played.reserved[-1].set_exception(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert await answer == ErrorCode.UNKNOWN_SERVER_ERROR
    assert request_context.applied is not None and request_context.applied.done()


def test_authorization() -> None:
    broker = Played().broker
    check_id(broker, context(), Operation.WRITE, "mine")
    check_id(broker, context(), Operation.DESCRIBE, "secret")
    with pytest.raises(ApiError) as failure:
        check_id(broker, context(), Operation.WRITE, "secret")
    assert failure.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

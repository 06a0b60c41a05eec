"""Blocks of producer ids: each is allocated once."""

from __future__ import annotations

import asyncio

import pytest

from kavka.server.controller.producer_id_blocks import BLOCK_IDS, PRODUCER_ID_MAX, next_block
from kavka.server.coordination.broker_registration import prepare_tree
from kavka.server.coordination.embedded import EmbeddedCoordination
from kavka.wire.errors import ApiError
from kavka.zktree import paths
from kavka.zktree.paths import ProducerIdBlock
from support.embedded_coordination import new_fs, open_on


async def prepared() -> EmbeddedCoordination:
    session = await open_on(new_fs())
    await prepare_tree(session)
    return session


async def test_blocks_are_consecutive() -> None:
    session = await prepared()
    assert await next_block(session, 1) == ProducerIdBlock(1, 0, 999)
    assert await next_block(session, 2) == ProducerIdBlock(2, 1000, 1999)
    stored = paths.decode_producer_id_block((await session.get(paths.PRODUCER_ID_BLOCK)).data)
    assert stored == ProducerIdBlock(2, 1000, 1999)


async def test_concurrent_requests_get_different_blocks() -> None:
    session = await prepared()
    blocks = await asyncio.gather(*(next_block(session, number) for number in range(10)))
    assert sorted(block.first for block in blocks) == [n * BLOCK_IDS for n in range(10)]


async def test_the_last_block_of_ids() -> None:
    session = await prepared()
    last = ProducerIdBlock(0, 0, PRODUCER_ID_MAX - 2 * BLOCK_IDS)
    await session.set(paths.PRODUCER_ID_BLOCK, paths.encode_producer_id_block(last))
    block = await next_block(session, 0)
    assert block.last == last.last + BLOCK_IDS
    with pytest.raises(ApiError):
        await next_block(session, 0)

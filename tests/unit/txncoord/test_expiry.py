"""How many transactional ids expire in one step; when they do: `tests/scenarios/transactions`."""

from __future__ import annotations

from kavka.txncoord.expiry import IDS_PER_STEP, TOMBSTONE_BYTES_PER_STEP
from kavka.wire.steps import run_at_once
from support.transaction_machine import TransactionKit

EXPIRATION_MS = 604_800_000


def batches_of_expiry(kit: TransactionKit) -> list[int]:
    """The sizes of the batches of tombstones."""
    written = len(kit.port.batches)
    kit.advance(EXPIRATION_MS)
    assert not kit.shard.state.transactions
    return [len(records) for records, _ in kit.port.batches[written:]]


def test_many_ids_expire_in_several_batches() -> None:
    kit = TransactionKit()
    for number in range(2 * IDS_PER_STEP + 5):
        kit.init(f"x{number}")
    assert batches_of_expiry(kit) == [IDS_PER_STEP, IDS_PER_STEP, 5]


def test_a_batch_of_long_ids_is_limited_in_bytes() -> None:
    kit = TransactionKit()
    a_step = TOMBSTONE_BYTES_PER_STEP // 25_000
    for number in range(2 * a_step):
        kit.init(f"{number:025000}")
    assert batches_of_expiry(kit) == [a_step, a_step]


def test_an_id_that_is_used_between_two_steps_does_not_expire() -> None:
    kit = TransactionKit()
    for number in range(IDS_PER_STEP + 2):
        kit.init(f"x{number}")
    kit.now_ms += EXPIRATION_MS
    assert run_at_once(kit.journal.tick_in_steps(kit.now_ms))
    kit.init(last := f"x{IDS_PER_STEP + 1}")
    kit.advance(0)
    assert list(kit.shard.state.transactions) == [last]

"""Money that is moved between accounts in transactions, and what must be true of it. Pure.

A transaction is a transfer. Its records are its entries, one for each account that it changes, in
the form `TRANSFER/ENTRIES/ACCOUNT/AMOUNT/BALANCE/`: its number, how many entries it has, the
account, by how much that changes, and what it is afterwards. The first transfer of money opens all
accounts. Each producer begins with a transfer of nothing, with an entry in each partition: who has
read that has read all that was committed before. Transfers are numbered upwards, and one begins
when the one before has ended. So a reader of what is committed sees that

- what an account has follows from what it had before: nothing is missing, doubled or in another
  order;
- a transfer is there with all its entries, or with none;
- the sum of all accounts is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from sim.history import ABORTED, COMMITTED

ACCOUNTS: Final = 6
OPENED_WITH: Final = 1000
TOTAL: Final = ACCOUNTS * OPENED_WITH
SHOWN = 60
"""Characters of a value in a complaint."""
PARTITIONS: Final = 3
"""That of an account is its number, modulo this. The accounts from ACCOUNTS on, one in each, are
for transfers of nothing."""


class Entry(NamedTuple):
    """What a transfer does to an account."""

    transfer: int
    entries: int
    """How many the transfer has."""
    account: int
    amount: int
    balance: int
    """After it."""

    def value(self) -> bytes:
        """As a record."""
        return b"%d/%d/%d/%d/%d/" % self


def parse(value: bytes) -> Entry | None:
    """The entry that is a record; None if it is none."""
    try:
        transfer, entries, account, amount, balance, rest = value.split(b"/")
        found = Entry(int(transfer), int(entries), int(account), int(amount), int(balance))
    except ValueError:
        return None
    return None if rest else found


class Ledger:
    """What one reader was given of what is committed, and what is violated in it."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.balances: dict[int, int] = {}
        """By account, after the last entry that was given."""
        self.last = -1
        """The highest number of a transfer that was given."""
        self.settled = -1
        """Of all transfers up to this number all entries were there."""
        self.given: dict[int, int] = {}
        """How many entries of each transfer."""
        self._unsettled: dict[int, list[Entry]] = {}
        self._settled_balances: dict[int, int] = {}
        self._last_in: dict[int, int] = {}
        """The last transfer in each partition."""

    @property
    def whole(self) -> int:
        """Up to this number, of all transfers that are committed all entries were given: each
        partition has them in order, and of the next one there may be more in its last."""
        return self._given_everywhere - 1

    def has_begun(self, transfer: int) -> bool:
        """Whether all that was committed before a transfer of nothing was given, and it as well."""
        return self._given_everywhere >= transfer

    @property
    def _given_everywhere(self) -> int:
        return min(self._last_in.get(at, 0) for at in range(PARTITIONS))

    def take(self, partition: int, offset: int, value: bytes) -> None:
        """A record was read."""
        at = f"money/{partition}@{offset}"
        entry = parse(value)
        if entry is None:
            self.violations.append(f"I2 foreign: {at}: {value[:SHOWN]!r} was never written")
            return
        number, account = entry.transfer, entry.account
        before = self.balances.get(account, 0)
        if entry.balance != before + entry.amount:
            self.violations.append(
                f"I9 balance: {at}: account {account} had {before}, and transfer {number} of "
                f"{entry.amount} makes it {entry.balance}"
            )
        if number < self._last_in.get(partition, -1):
            self.violations.append(
                f"I5 inversion: {at}: transfer {number} after {self._last_in[partition]}"
            )
        if number <= self.settled:
            self.violations.append(f"I4 late: {at}: transfer {number}, read after {self.settled}")
        self._last_in[partition] = number
        self.last = max(self.last, number)
        self.balances[account] = entry.balance
        self.given[number] = self.given.get(number, 0) + 1
        self._unsettled.setdefault(number, []).append(entry)

    def settle(self, through: int) -> None:
        """All that is committed of transfers up to this number must have been given."""
        for number in sorted(self._unsettled):
            if number > through:
                break
            entries = self._unsettled.pop(number)
            if len(entries) != entries[0].entries:
                self.violations.append(
                    f"I4 part: of transfer {number} {len(entries)} of {entries[0].entries} entries "
                    "are there"
                )
            before = sum(self._settled_balances.values())
            self._settled_balances |= {entry.account: entry.balance for entry in entries}
            total = sum(self._settled_balances.values())
            if total not in (TOTAL, before):  # reported once, and not with each transfer after that
                self.violations.append(
                    f"I9 sum: after transfer {number} there is {total}, and not {TOTAL}"
                )
        self.settled = max(self.settled, through)


def broken_promises(given: Mapping[int, int], outcomes: Mapping[int, str]) -> Iterator[str]:
    """Transfers that are there and should not be, or are not there; `given` is how many entries of
    each there are in the end, `outcomes` what became of each for who made it."""
    for number, outcome in outcomes.items():
        if outcome == COMMITTED and number not in given:
            yield f"I1 lost: transfer {number} is committed, and not there"
        if outcome == ABORTED and number in given:
            yield f"I4 aborted: transfer {number} is aborted, and {given[number]} entries are there"
    for number in given:
        if number not in outcomes:
            yield f"I2 foreign: transfer {number} was never made"

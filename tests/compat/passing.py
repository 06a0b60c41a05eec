"""What a run of the suite must be here: nothing failed, and nothing is missing on CI."""

from __future__ import annotations

from kavka.compat_tests.results import Results, Status
from support import java


def check_passed(results: Results) -> None:
    """Skips the test where a client's toolchain is missing, except on CI."""
    unavailable = {cell.reason for cell in results.cells if cell.status == Status.UNAVAILABLE}
    if unavailable:
        java.missing("; ".join(unavailable))
    failed = [cell for cell in results.cells if cell.status == Status.FAILED]
    assert not failed, "\n".join(map(repr, failed))
    assert results.count(Status.PASSED)

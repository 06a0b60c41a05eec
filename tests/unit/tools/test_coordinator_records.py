"""Records of coordinators that are none: Apache Kafka's words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.console.coordinator_records import offsets_json


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [(b"", None, "key"), (b"k", None, "key"), (b"\0\0" + bytes(8), b"v", "value")],
)
def test_one_without_a_version(key: bytes, value: bytes | None, part: str) -> None:
    message = (
        f"Could not read record at offset 7 due to: Could not read version from {part}'s buffer."
    )
    with pytest.raises(Failed) as failed:
        offsets_json(SimpleNamespace(key=key, value=value, offset=7))
    assert str(failed.value) == message

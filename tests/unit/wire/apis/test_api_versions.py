"""ApiVersions: the software's name (KIP-511) and the answer to a version that is too new."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.wire.apis import api_versions
from kavka.wire.apis.api_versions import ApiVersion, is_valid
from kavka.wire.errors import ErrorCode


def software(name: str, version: str) -> Any:
    return SimpleNamespace(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("text", ["a", "apache-kafka-java", "librdkafka", "3.9.0-rc3", "A1"])
def test_names_that_are_well_formed(text: str) -> None:
    assert is_valid(software(text, "1"), 3)
    assert is_valid(software("name", text), 4)


@pytest.mark.parametrize("text", ["", "-a", "a-", ".a", "a b", "a/b", "é", "a\n", "a_b"])
def test_names_that_are_not(text: str) -> None:
    assert not is_valid(software(text, "1"), 3)
    assert not is_valid(software("name", text), 3)
    assert is_valid(software(text, text), 2)  # older versions have no such field


def test_a_version_that_is_too_new_learns_the_highest() -> None:
    answer = api_versions.error_response(None, ErrorCode.UNSUPPORTED_VERSION, 77)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.api_keys == [ApiVersion(18, 0, api_versions.API.highest)]


def test_other_errors_list_nothing() -> None:
    answer = api_versions.error_response(None, ErrorCode.INVALID_REQUEST, 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, ())

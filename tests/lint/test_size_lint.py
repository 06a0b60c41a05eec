"""The size lint: at the limit, over it, and which limits hold for tests."""

from __future__ import annotations

from lint.size_lint import FILE_LINES_MAX, FUNCTION_LINES_MAX, check_source


def function(lines: int, head: str = "def f():") -> str:
    return "\n".join([head, *["    pass"] * (lines - 1), ""])


def messages(path: str, source: str) -> list[str]:
    return [str(finding) for finding in check_source(path, source)]


def test_files_up_to_the_limit_pass() -> None:
    assert messages("log/x.py", "x = 1\n" * FILE_LINES_MAX) == []


def test_a_long_file_is_found_in_code_and_in_tests() -> None:
    source = "x = 1\n" * (FILE_LINES_MAX + 1)
    for path in ("log/x.py", "tests/unit/test_x.py"):
        assert messages(path, source) == [f"{path}:1: size: 601 lines, 600 are allowed: split it"]


def test_functions_up_to_the_limit_pass() -> None:
    assert messages("log/x.py", function(FUNCTION_LINES_MAX)) == []


def test_a_long_function_is_found_where_it_begins() -> None:
    source = "\n" + function(FUNCTION_LINES_MAX + 1, "async def g():")
    assert messages("log/x.py", source) == ["log/x.py:2: size: g: 71 lines, 70 are allowed"]


def test_a_long_method_is_found() -> None:
    body = function(FUNCTION_LINES_MAX + 1).replace("\n", "\n    ")
    assert len(messages("log/x.py", f"class C:\n    {body}")) == 1


def test_a_test_may_be_long() -> None:
    assert messages("tests/unit/test_x.py", function(FUNCTION_LINES_MAX + 1)) == []

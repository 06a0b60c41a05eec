from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.server.config.properties import PropertiesError, parse_properties


def answer(text: str) -> list[str]:
    try:
        entries = parse_properties(text.encode())
    except PropertiesError:
        return ["refused"]
    return [field for entry in entries for field in entry[:2]]


def test_files_as_java_reads_them(recorded: Callable[[str], list[list[str | None]]]) -> None:
    lines = recorded("properties.tsv")
    assert len(lines) == 400
    differing = {str(text): expected for text, *expected in lines if answer(str(text)) != expected}
    assert differing == {}


def escaped(text: str, *, key: bool) -> str:
    """As java.util.Properties.store writes a key or a value."""
    out = []
    for place, letter in enumerate(text):
        if letter in "\t\n\r\f":
            out.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[letter])
        elif letter in "\\=:#!" or (letter == " " and (key or place == 0)):
            out.append("\\" + letter)
        elif " " <= letter <= "~":
            out.append(letter)
        else:
            units = letter.encode("utf-16-be")
            out += [f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2)]
    return "".join(out)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None)
@given(st.lists(st.tuples(texts, texts)))
def test_what_java_stores_is_read_back(entries: list[tuple[str, str]]) -> None:
    lines = [f"{escaped(key, key=True)}={escaped(value, key=False)}" for key, value in entries]
    found = parse_properties("\n".join(["#Mon Nov 03", *lines, ""]).encode())
    assert [(entry.key, entry.value, entry.line) for entry in found] == [
        (key, value, number) for number, (key, value) in enumerate(entries, start=2)
    ]


@settings(deadline=None)
@given(st.text(st.sampled_from("ab=: \t\f\\\n\r#!u0")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        entries = parse_properties(text.encode())
    except PropertiesError:
        assert "\\u" in text
        return
    lines = len(text.splitlines()) + 1
    assert all(1 <= entry.line <= lines for entry in entries)


@settings(deadline=None)
@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_properties(data)
    except PropertiesError as error:
        assert str(error)


def test_utf_8_with_and_without_mark() -> None:
    for data in ("ö=ü中".encode(), "ö=ü中".encode("utf-8-sig")):
        (entry,) = parse_properties(data)
        assert entry == ("ö", "ü中", 1)


def test_a_line_is_counted_from_its_beginning() -> None:
    entries = parse_properties(b"# head\r\n\r\na=1,\\\r\n  2\r\nb=3")
    assert entries == [("a", "1,2", 3), ("b", "3", 5)]


def test_a_lone_backslash_at_the_end_is_nothing() -> None:
    assert parse_properties(b"a=1\n\\") == [("a", "1", 1)]
    assert parse_properties(b"a=1\n\\\n") == [("a", "1", 1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a=1\nb=\\u12", r"line 2: \\u must be followed by four hexadecimal digits"),
        (b"a=\xff", "not UTF-8 at byte 2"),
        (b"a=1\n\nb=\\ud83d", "line 3: .* one half of a pair"),
    ],
)
def test_messages(data: bytes, message: str) -> None:
    with pytest.raises(PropertiesError, match=message):
        parse_properties(data)

"""What `sasl.jaas.config` says."""

from __future__ import annotations

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.jaas import jaas_options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required username="alice" password="secret";', ["alice", "secret"]),
        ("M REQUIRED username=alice\n  password = 's e=c;r\"et' ; ", ["alice", 's e=c;r"et']),
        (r'a.b.M optional username="a\"b\\c" password="\n\x";', ['a"b\\c', "\nx"]),
        (r'M required a="\141\0628" b="\777\9";', ["a28", "?79"]),
        ('/* of */ M // us\n required a="/*b*/" /* c="//" */ d="//e" ; //', ["/*b*/", "//e"]),
    ],
)
def test_options_are_read(text: str, options: list[str]) -> None:
    assert list(jaas_options(text).values()) == options


def test_flags_need_no_options() -> None:
    assert jaas_options("M required;") == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M",
        "M required",
        "M needed;",
        "M required username;",
        "M required username=;",
        "M required password=mine",
        'M required password="mine;',
        "M required password=mine username",
        "M required =;",
    ],
)
def test_what_is_no_jaas_is_refused_without_telling_secrets(text: str) -> None:
    with pytest.raises(Failed, match=r"sasl\.jaas\.config is not of the form") as caught:
        jaas_options(text)
    assert "mine" not in str(caught.value)

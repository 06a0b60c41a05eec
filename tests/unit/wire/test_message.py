"""Classes of answers, held to what `dataclasses` makes of the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import schemas
from kavka.wire.message import message


def both(define: Callable[[Any], type]) -> tuple[Any, Any]:
    return define(message), define(dataclass(slots=True))


def answer(decorate: Callable[[type], type]) -> type:
    @decorate
    class Answer:
        """What it says."""

        topics: Sequence[str]
        error_code: int = 0
        error_message: str | None = None

        @property
        def failed(self) -> bool:
            return self.error_code != 0

    return Answer


def empty(decorate: Callable[[type], type]) -> type:
    @decorate
    class Plain:
        error_code: int = 0

    return Plain


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((["a"],), {}),
    ((["a"], 3), {}),
    ((["a"],), {"error_code": 3}),
    ((["a"], 3, "why"), {}),
    ((), {"topics": [], "error_message": ""}),
]


@pytest.mark.parametrize(("args", "named"), ARGUMENTS)
def test_objects_are_those_of_a_dataclass(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, model = (make(*args, **named) for make in both(answer))
    assert repr(ours) == repr(model)
    for name in ("topics", "error_code", "error_message", "failed"):
        assert getattr(ours, name) == getattr(model, name)
    with pytest.raises(AttributeError):
        ours.other = 1


@pytest.mark.parametrize("left", ARGUMENTS)
@pytest.mark.parametrize("right", ARGUMENTS)
def test_equality_is_that_of_a_dataclass(left: Any, right: Any) -> None:
    ours, model = both(answer)
    our_left, our_right = (ours(*args, **named) for args, named in (left, right))
    model_left, model_right = (model(*args, **named) for args, named in (left, right))
    assert (our_left == our_right) == (model_left == model_right) and (our_left != our_right) == (
        model_left != model_right
    )
    assert our_left != model_left and our_left != 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(our_left)


@pytest.mark.parametrize("define", [answer, empty])
def test_classes_are_those_of_a_dataclass(define: Callable[[Any], type]) -> None:
    ours, model = both(define)
    for name in ("__name__", "__qualname__", "__module__", "__slots__", "__match_args__"):
        assert getattr(ours, name) == getattr(model, name)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(model).parameters)
    for wrong in ({}, {"nonsense": 1}):
        if wrong or define is answer:
            with pytest.raises(TypeError):
                ours(**wrong)


def test_all_answers_are_made_so() -> None:
    """A dataclass among them would cost each start as much as five of these."""
    modules = schemas.api_modules().values()
    found = [
        member for module in modules for member in vars(module).values() if is_dataclass(member)
    ]
    assert modules and not found

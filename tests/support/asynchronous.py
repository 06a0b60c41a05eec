"""Tests that are coroutines and get what a decorator has made for them; a coroutine that is to be
called with nothing but fixtures needs no decorator (`tests/conftest.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

Test = Callable[..., Coroutine[Any, Any, None]]


def ran_by(run: Callable[[Test], object]) -> Callable[[Test], Callable[..., None]]:
    """A decorator for tests. `run` calls them with what it has made for them, their positional-only
    parameters, which may be fewer; the others are fixtures and parameters, as in any test.

        with_broker = ran_by(run)

        @with_broker
        async def test_something(broker: Broker, /, monkeypatch: pytest.MonkeyPatch) -> None:
    """

    def decorate(test: Test) -> Callable[..., None]:
        signature = inspect.signature(test)
        parameters = list(signature.parameters.values())
        fixtures = [
            parameter for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY
        ]
        count = len(parameters) - len(fixtures)

        @wraps(test)
        def call(**given: Any) -> None:
            run(lambda *made: test(*made[:count], **given))

        vars(call)["__signature__"] = signature.replace(parameters=fixtures)
        return call

    return decorate

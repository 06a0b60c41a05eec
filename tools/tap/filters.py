"""Which messages are shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kavka.tools.tap.conversation import Message

ANY_ERROR = "any"


class Filter(NamedTuple):
    """What a message must have; each only if it is given."""

    apis: Sequence[str] = ()
    """Names in lower case, or keys."""
    client: re.Pattern[str] | None = None
    """Of the whole client id."""
    topic: re.Pattern[str] | None = None
    """Of the whole name of one of its topics, or of its request's."""
    errors: Sequence[str] = ()
    """Names, or `ANY_ERROR`; only responses have errors."""

    @property
    def is_open(self) -> bool:
        """Whether everything is shown, connections that begin and end too."""
        return self == Filter()

    def shows(self, message: Message) -> bool:
        """Whether a message is shown."""
        if self.apis:
            name = "" if message.api is None else message.api.name.lower()
            if name not in self.apis and str(message.key) not in self.apis:
                return False
        if self.client and not self.client.fullmatch(message.client_id or ""):
            return False
        if self.errors:
            found = message.content.errors
            if not (found if ANY_ERROR in self.errors else set(found) & set(self.errors)):
                return False
        if self.topic is None:
            return True
        topics = [*message.requested_topics, *(part.topic for part in message.content.parts)]
        return any(map(self.topic.fullmatch, topics))

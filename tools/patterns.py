"""Regular expressions that users give: Python's."""

from __future__ import annotations

import re
import warnings
from typing import Final

from kavka.tools.admin.errors import Failed

FLAGS: Final = re.compile(r"\(\?[aimsux]+\)")
"""In front of an expression: they count for all of it, and may stand nowhere else."""


def user_pattern(text: str, called: str = "", *, suffix: str = "") -> re.Pattern[str]:
    """One that is `text`, followed by `suffix`. Failed, with the name of what it was given for
    (`called`), if it is none. What Python might read otherwise one day (`[[a`) is no concern of the
    user, who would see a line of Python's source."""
    name = f"{called} {text}".lstrip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pattern = re.compile(text)
            if not suffix:
                return pattern
            flags = FLAGS.match(text)
            rest = text[flags.end() :] if flags else text
            return re.compile(f"(?:{rest}){suffix}", pattern.flags)
    except RecursionError as error:
        raise Failed(f"{name} is no regular expression: it is nested too deep") from error
    except (re.error, OverflowError) as error:
        raise Failed(f"{name} is no regular expression: {error}") from error

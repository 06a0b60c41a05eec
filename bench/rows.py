"""What a row of the report is."""

from __future__ import annotations

from typing import Literal, NamedTuple

Better = Literal["less", "more"]


class Measure(NamedTuple):
    """One row. `aim` and `stretch` bound the median, in the row's unit; `ratio_aim` bounds Kavka's
    median divided by Apache Kafka's."""

    key: str
    label: str
    better: Better = "less"
    aim: float | None = None
    stretch: float | None = None
    ratio_aim: float | None = None

    def meets(self, value: float, bound: float) -> bool:
        """Whether `value` is at least as good as `bound`."""
        return value <= bound if self.better == "less" else value >= bound


class Section(NamedTuple):
    """Rows that belong together."""

    title: str
    measures: tuple[Measure, ...]

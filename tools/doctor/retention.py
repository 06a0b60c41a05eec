"""Judges which topics grow until the disk is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from kavka.tools.admin.printing import plural
from kavka.tools.doctor.findings import Finding, ok, warning

STEP: Final = "retention"
NO_LIMIT: Final = "-1"
EACH_MAX: Final = 10
"""So many of the largest have a finding of their own."""

Configs: TypeAlias = Mapping[str, str | None]


def judge_retention(configs: Mapping[str, Configs], sizes: Mapping[str, int]) -> list[Finding]:
    """`configs` of topics that are not internal; `sizes` in bytes, of all their replicas."""
    unlimited = [topic for topic, config in configs.items() if _is_unlimited(config)]
    unlimited.sort(key=lambda topic: (-sizes.get(topic, 0), topic))
    findings = [
        warning(
            STEP,
            "no-limit",
            topic,
            f"keeps all records for ever ({_reason(configs[topic])}){_size(sizes.get(topic))}: it "
            "grows until the disk is full",
            f"kavka configs --alter --entity-type topics --entity-name {topic} --add-config "
            "retention.ms=604800000 (a week), or retention.bytes for each partition; "
            "cleanup.policy=compact if only the last record of each key counts",
        )
        for topic in unlimited[:EACH_MAX]
    ]
    if rest := unlimited[EACH_MAX:]:
        findings.append(
            warning(
                STEP,
                "no-limit",
                f"{len(rest)} more topic{plural(rest)}",
                f"keep all records for ever: {', '.join(sorted(rest))}",
                "as for the others",
            )
        )
    return findings or [ok(STEP, "all topics", "have a limit")]


def _is_unlimited(config: Configs) -> bool:
    policies = _policies(config)
    if "compact" in policies:
        return False
    if "delete" not in policies:
        return True
    return config.get("retention.ms") == config.get("retention.bytes") == NO_LIMIT


def _policies(config: Configs) -> set[str]:
    text = config.get("cleanup.policy")
    return {policy.strip() for policy in ("delete" if text is None else text).split(",")}


def _reason(config: Configs) -> str:
    if "delete" not in _policies(config):
        return "cleanup.policy is empty"
    return "retention.ms=-1 and retention.bytes=-1"


def _size(number: int | None) -> str:
    return "" if number is None else f", {number / 1e6:.1f} MB now"

"""`kavka features`: as Apache Kafka's kafka-features, option by option."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.tools.admin.broker_api_versions import ApiVersionsRequest
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.feature_levels import (
    FEATURES,
    LATEST,
    METADATA,
    METADATA_VERSIONS,
    level_name,
    metadata_level,
)
from kavka.tools.admin.java_errors import Refused
from kavka.tools.admin.java_order import hash_order
from kavka.tools.admin.options import (
    BROKERS,
    CLIENT_CONFIG,
    CONTROLLERS,
    Given,
    Option,
    SubCommand,
    is_whole,
)
from kavka.tools.admin.printing import PROGRAM_FORMS, print_csv, print_rows
from kavka.wire.apis import api_versions, update_features
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

TIMEOUT_MS: Final = 30_000
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
LEVEL_BITS: Final = 16
COLUMNS: Final = ("feature", "supportedMin", "supportedMax", "finalized", "epoch")
DEPENDENCY: Final = ("feature", "level", "neededFeature", "neededLevel")


@message
class FeatureUpdate:
    """`allow_downgrade` before version 1, `upgrade_type` since."""

    feature: str
    max_version_level: int
    upgrade_type: int
    allow_downgrade: bool


@message
class UpdateFeaturesRequest:
    feature_updates: Sequence[FeatureUpdate]
    validate_only: bool
    timeout_ms: int = TIMEOUT_MS


def check(given: Given) -> None:
    """Refuse what does not go together."""
    given.excludes(BROKERS.name, [CONTROLLERS.name])
    offline = given.command is not None and given.command.run is not None
    if not offline and not given.has(BROKERS.name) and not given.has(CONTROLLERS.name):
        raise Misused("You must specify either --bootstrap-controller or --bootstrap-server")


async def run(cluster: ClusterClient, given: Given) -> int:
    """The chosen command. Failed."""
    assert given.command is not None
    if given.command.name == "describe":
        return await _describe(cluster, given)
    return await _update(cluster, given, given.command.name)


def print_mapping(given: Given) -> int:
    """The features of a release. Failed."""
    release = given.text("release-version") or METADATA_VERSIONS[LATEST]
    level = metadata_level(release)
    levels = {METADATA: level} | {feature.name: feature.default(level) for feature in FEATURES}
    form = given.text("output")
    if form == "json":
        print(json.dumps({"features": levels}))
    elif form == "csv":
        print_csv(("feature", "level"), levels.items())
    else:
        for name, feature_level in levels.items():
            print(
                f"{name}={feature_level} ({release})"
                if name == METADATA
                else f"{name}={feature_level}"
            )
    return 0


def print_dependencies(given: Given) -> int:
    """What levels of features need. Failed."""
    form = given.text("output")
    rows = []
    for text in given.texts("feature"):
        name, level = name_and_level(text)
        needed = _needed(name, level)
        rows.append((name, level, None if needed is None else METADATA, needed))
        if form not in PROGRAM_FORMS:
            _print_dependency(name, level, needed)
    if form in PROGRAM_FORMS:
        print_rows("dependencies", DEPENDENCY, rows, form)
    return 0


def _print_dependency(name: str, level: int, needed: int | None) -> None:
    shown = f"{name}={level}"
    if name == METADATA:
        shown += f" ({METADATA_VERSIONS[level]})"
    if needed is None:
        print(f"{shown} has no dependencies.")
    else:
        print(f"{shown} requires:")
        print(f"    {METADATA}={needed} ({METADATA_VERSIONS[needed]})")


def _needed(name: str, level: int) -> int | None:
    """The metadata.version that a level depends on, if it does. Failed."""
    if name == METADATA:
        if level not in METADATA_VERSIONS:
            raise Failed(f"Unknown metadata.version {level}")
        return None
    feature = next((known for known in FEATURES if known.name == name), None)
    if feature is None:
        raise Failed(f"Unknown feature: {name}")
    if not 0 <= level < len(feature.since):
        raise Failed(f"No feature:{name} with feature level {level}")
    return feature.needs.get(level)


_FEATURE: Final = Option(
    "feature", "FEATURE=LEVEL; may be given many times.", "TEXT", is_repeated=True
)
_CHANGES: Final = (
    Option("metadata", "The release of metadata.version, an older option.", "RELEASE"),
    Option("release-version", "The release whose levels all features get.", "RELEASE"),
    _FEATURE,
)
_UNSAFE: Final = Option("unsafe", "Even if metadata may be lost.")
_DRY: Final = Option("dry-run", "Check only.")

TOOL: Final = Tool(
    "features",
    "Print and change the levels of a cluster's features.",
    (BROKERS, CONTROLLERS, CLIENT_CONFIG),
    check,
    run,
    commands=(
        SubCommand(
            "describe",
            "Print the features.",
            (Option("node-id", "The broker or controller to ask.", "ID", is_number=True),),
        ),
        SubCommand("upgrade", "Raise levels.", (*_CHANGES, _DRY), text_only=True),
        SubCommand("downgrade", "Lower levels.", (*_CHANGES, _UNSAFE, _DRY), text_only=True),
        SubCommand(
            "disable",
            "Lower levels to 0.",
            (_FEATURE._replace(help="A feature; may be given many times."), _UNSAFE, _DRY),
            text_only=True,
        ),
        SubCommand(
            "version-mapping",
            "Print the levels that belong to a release.",
            (Option("release-version", "The release; the newest if left out.", "RELEASE"),),
            print_mapping,
        ),
        SubCommand(
            "feature-dependencies",
            "Print what levels of features need.",
            (_FEATURE._replace(is_required=True),),
            print_dependencies,
        ),
    ),
)


async def _describe(cluster: ClusterClient, given: Given) -> int:
    node_id = given.number("node-id")
    if node_id is not None and node_id < 0:
        raise Failed(f"Invalid node id {node_id}: must be non-negative.")
    if node_id is None:
        response = await cluster.ask(api_versions.API, ApiVersionsRequest())
    else:
        response = await cluster.ask_broker(node_id, api_versions.API, ApiVersionsRequest())
    if response.error_code:
        raise Refused(response.error_code)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    epoch = response.finalized_features_epoch
    rows = [
        (feature.name, feature.min_version, feature.max_version, levels.get(feature.name, 0), epoch)
        for feature in sorted(response.supported_features, key=lambda feature: str(feature.name))
    ]
    form = given.text("output")
    if form in PROGRAM_FORMS:
        print_rows("features", COLUMNS, rows, form)
    else:
        for name, *shown, _ in rows:
            least, most, final = (level_name(name, level) for level in shown)
            print(
                f"Feature: {name:<40}  SupportedMinVersion: {least:<15}  "
                f"SupportedMaxVersion: {most:<15}  FinalizedVersionLevel: {final:<15}  "
                f"Epoch: {epoch if epoch >= 0 else '-'}"
            )
    return 0


async def _update(cluster: ClusterClient, given: Given, action: str) -> int:
    kind = UPGRADE
    if action != "upgrade":
        kind = UNSAFE_DOWNGRADE if given.has("unsafe") else SAFE_DOWNGRADE
    levels = _disabled(given) if action == "disable" else _levels(given, action)
    if not levels:
        raise Failed(f"You must specify at least one feature to {action}")
    if "" in levels:
        raise Failed("Provided feature can not be empty.")
    for level in levels.values():
        if level < 0:
            raise Failed("Cannot specify a negative version level.")
        if not level and kind == UPGRADE:
            raise Failed("An upgrade can't set a level to 0: use downgrade or disable.")
    updates = [
        FeatureUpdate(name, levels[name], kind, kind != UPGRADE) for name in hash_order(levels)
    ]
    response = await cluster.ask_controller(
        update_features.API,
        UpdateFeaturesRequest(updates, given.has("dry-run")),
        lambda response: [response.error_code],
    )
    errors: dict[str, tuple[int, str | None]] = {
        result.feature: (result.error_code, result.error_message) for result in response.results
    }
    if response.error_code:
        errors = {name: (response.error_code, response.error_message) for name in levels}
    return _print_outcome(levels, errors, action, is_dry=given.has("dry-run"))


def _levels(given: Given, action: str) -> dict[str, int]:
    """What upgrade and downgrade ask for. Failed."""
    release, metadata = given.text("release-version"), given.text("metadata")
    if release is not None:
        if metadata is not None or given.has("feature"):
            raise Failed("Can not specify `release-version` with other feature flags.")
        level = metadata_level(release)
        defaults = {feature.name: feature.default(level) for feature in FEATURES}
        is_upgrade = action == "upgrade"
        return {METADATA: level} | {
            name: default for name, default in defaults.items() if default or not is_upgrade
        }
    levels = {}
    if metadata is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA] = metadata_level(metadata)
    for text in given.texts("feature"):
        name, level = name_and_level(text)
        if name in levels:
            raise Failed(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def _disabled(given: Given) -> dict[str, int]:
    names = list(given.texts("feature"))
    for name in names:
        if names.count(name) > 1:
            raise Failed(f"Feature {name} was specified more than once.")
    return dict.fromkeys(names, 0)


def name_and_level(text: str) -> tuple[str, int]:
    """The two parts of feature=level. Failed."""
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise Failed(f"Can't parse feature=level string {text}: equals sign not found.")
    if not is_whole(level, LEVEL_BITS):
        raise Failed(
            f"Can't parse feature=level string {text}: unable to parse {level} as a short."
        )
    return name, int(level)


def _print_outcome(
    levels: Mapping[str, int],
    errors: Mapping[str, tuple[int, str | None]],
    action: str,
    *,
    is_dry: bool,
) -> int:
    failures = 0
    for name in sorted(levels):
        code, text = errors.get(name, (ErrorCode.NONE, None))
        if code:
            failures += 1
            operation = (
                f"disable {name}" if action == "disable" else f"{action} {name} to {levels[name]}"
            )
            print(f"{'Can not' if is_dry else 'Could not'} {operation}. {Refused(code, text)}")
        else:
            done = "disabled." if action == "disable" else f"{action}d to {levels[name]}."
            print(f"{name} {'can be' if is_dry else 'was'} {done}")
    if failures:
        raise Failed(f"{failures} out of {len(levels)} operation(s) failed.")
    return 0

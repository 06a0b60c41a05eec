"""Carries out AlterConfigs and IncrementalAlterConfigs, resource by resource.

Authorization, the rules for each resource type, and the order of the checks are those of Apache
Kafka 4.3. Settings that are accepted but have no effect are logged.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, NoReturn

from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.cluster.config_changes import OPS, Alteration, AlterOp, ConfigResourceType
from kavka.server.config import ConfigError, topic_warnings, validate_topic_configs
from kavka.server.config.change_rules import check_change
from kavka.server.config.dynamic_rules import (
    Unsupported,
    check_layer,
    check_size,
    effective_given,
    usable,
    value_of,
)
from kavka.server.config.group_overrides import group_warnings, validate_group_configs
from kavka.server.config.other_resource_rows import GROUP
from kavka.server.config.subscriptions import validate_subscription
from kavka.server.config.table import TOPIC, broker_row
from kavka.server.config.value_types import BadValue, Type, one_line
from kavka.server.controller.topic_validation import check_topic_name
from kavka.server.coordination.failures import coordination_failed
from kavka.server.handlers.common.config_rights import authorize, node_id
from kavka.server.request.context import RequestContext
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import CoordinationError

logger = logging.getLogger(__name__)

SUBSCRIPTIONS_MAX: Final = 500
"""Subscriptions to client metrics (KIP-714): all are matched, on the loop, for each new client."""

RESOURCES_PER_STEP: Final = 100
"""Resources checked in one slice, and stored concurrently, so that their writes share fsyncs; one
takes up to 25 us."""


class AlterOutcome(NamedTuple):
    """The result for one resource."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


async def alter(
    broker: Broker,
    context: RequestContext,
    alterations: Sequence[Alteration],
    *,
    validate_only: bool,
) -> list[AlterOutcome]:
    """An outcome for each alteration; NONE means that the change is in force on this broker."""
    times = Counter((alteration.kind, alteration.name) for alteration in alterations)
    outcomes: dict[int, AlterOutcome] = {}
    for index, alteration in enumerate(alterations):
        if index % RESOURCES_PER_STEP == RESOURCES_PER_STEP - 1:
            await broker.tasks.sleep(0)
        try:
            if times[alteration.kind, alteration.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if _begin(broker, context, alteration, validate_only):
                outcomes[index] = AlterOutcome()
        except ApiError as error:
            outcomes[index] = AlterOutcome(error.code, error.message)
    rest = [index for index in range(len(alterations)) if index not in outcomes]
    # As in Apache Kafka's controller, an unknown operation fails all resources of the request.
    if any(alterations[index].has_unknown_op for index in rest):
        outcomes.update(dict.fromkeys(rest, AlterOutcome(ErrorCode.UNKNOWN_SERVER_ERROR)))
        rest = []
    for start in range(0, len(rest), RESOURCES_PER_STEP):
        stored = {
            index: broker.tasks.spawn(
                _outcome(broker, context, alterations[index], validate_only),
                name="change of configs",
            )
            for index in rest[start : start + RESOURCES_PER_STEP]
        }
        for index, task in stored.items():
            outcomes[index] = await task
    return [outcomes[index] for index in range(len(alterations))]


async def _outcome(
    broker: Broker, context: RequestContext, alteration: Alteration, validate_only: bool
) -> AlterOutcome:
    """The outcome of storing one resource; a failure does not affect the others."""
    try:
        await _store(broker, context, alteration, validate_only)
    except ApiError as error:
        return AlterOutcome(error.code, error.message)
    except CoordinationError as failure:
        api_error = coordination_failed(failure)
        return AlterOutcome(api_error.code, api_error.message)
    except Exception:
        name = one_line(alteration.name)
        logger.exception(
            "can't change configs of %s %s", ConfigResourceType(alteration.kind).name, name
        )
        return AlterOutcome(ErrorCode.UNKNOWN_SERVER_ERROR)
    return AlterOutcome()


def _begin(
    broker: Broker, context: RequestContext, alteration: Alteration, validate_only: bool
) -> bool:
    """Make the checks that need no stored configs. True if the alteration is finished by then, as
    for logger levels. ApiError."""
    alteration.check_form()
    if alteration.kind == ConfigResourceType.BROKER_LOGGER and not alteration.replaces:
        authorize(
            broker,
            context,
            Operation.ALTER_CONFIGS,
            ConfigResourceType.BROKER_LOGGER,
            alteration.name,
        )
        _check_node(broker, alteration.name, "Unexpected node id. Expected")
        if alteration.has_unknown_op:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        broker.logger_levels.alter(alteration.changes, validate_only=validate_only)
        return True
    if alteration.kind == ConfigResourceType.BROKER:
        if alteration.name:
            _check_node(broker, alteration.name, "Unexpected broker id, expected")
        _check_broker_ops(alteration)
        stored = broker.topic_configs
        current = stored.broker(broker.broker_id) if alteration.name else stored.broker_defaults()
        _broker_configs(broker, alteration, current)
    elif alteration.kind not in (
        ConfigResourceType.TOPIC,
        ConfigResourceType.GROUP,
        ConfigResourceType.CLIENT_METRICS,
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {alteration.kind}")
    return False


def _check_node(broker: Broker, name: str, unexpected: str) -> None:
    node = node_id(name)
    if node is None:
        reason = f"Node id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    if node != broker.broker_id:
        reason = f"{unexpected} {broker.broker_id}, but received {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)


def _check_broker_ops(alteration: Alteration) -> None:
    for _, op, _ in alteration.changes:
        if op not in OPS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {op}")
    for name, op, _ in alteration.changes:
        if op not in (AlterOp.APPEND, AlterOp.SUBTRACT):
            continue
        row = broker_row(name)
        if row is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
        if row.type is not Type.LIST:
            word = AlterOp(op).name.lower()
            reason = f"Config value {word} is not allowed for config key: {name}"
            raise ApiError(ErrorCode.INVALID_CONFIG, reason)


async def _store(
    broker: Broker, context: RequestContext, alteration: Alteration, validate_only: bool
) -> None:
    """Check the alteration against the stored configs, and store the result."""
    authorize(
        broker,
        context,
        Operation.ALTER_CONFIGS,
        ConfigResourceType(alteration.kind),
        alteration.name,
    )
    if alteration.kind == ConfigResourceType.TOPIC:
        await _store_topic(broker, alteration, validate_only)
    elif alteration.kind == ConfigResourceType.BROKER:
        entity = str(int(alteration.name)) if alteration.name else paths.DEFAULT_ENTITY
        await broker.config_writer.change(
            (paths.BROKER_CONFIGS, entity),
            lambda current: _broker_configs(broker, alteration, current),
            validate_only=validate_only,
        )
    elif alteration.kind == ConfigResourceType.GROUP:
        if not alteration.name:
            reason = "Default group resources are not allowed."
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)
        await broker.config_writer.change(
            (paths.GROUP_CONFIGS, alteration.name),
            lambda current: _group_configs(broker, alteration, current),
            validate_only=validate_only,
        )
        if not validate_only:
            _warn(
                f"group {alteration.name}",
                alteration,
                broker.topic_configs.group(alteration.name),
                group_warnings,
            )
    else:
        await _store_subscription(broker, alteration, validate_only)


def _group_configs(
    broker: Broker, alteration: Alteration, current: Mapping[str, str]
) -> Mapping[str, str]:
    altered = alteration.applied(current, GROUP)
    validate_group_configs(altered, broker.settings)
    return altered


async def _store_topic(broker: Broker, alteration: Alteration, validate_only: bool) -> None:
    if alteration.name not in broker.metadata.image.topics:
        _refuse_topic(broker, alteration)
    await broker.config_writer.change(
        (paths.TOPIC_CONFIGS, alteration.name),
        lambda current: _topic_configs(broker, alteration, current),
        validate_only=validate_only,
    )
    if not validate_only:
        _warn(
            f"topic {alteration.name}",
            alteration,
            broker.topic_configs.get(alteration.name),
            topic_warnings,
        )


def _warn(
    whose: str,
    alteration: Alteration,
    configs: Mapping[str, str],
    warnings: Callable[[Mapping[str, str]], list[str]],
) -> None:
    """Log the settings of an accepted change that have no effect."""
    changed = {name: configs[name] for name, _, _ in alteration.changes if name in configs}
    for warning in warnings(changed):
        logger.warning("%s: %s", one_line(whose), warning)


async def _store_subscription(broker: Broker, alteration: Alteration, validate_only: bool) -> None:
    configs = broker.topic_configs

    def decide(current: Mapping[str, str]) -> Mapping[str, str]:
        altered = alteration.applied(current, {})  # no APPEND or SUBTRACT, as in Apache Kafka
        validate_subscription(alteration.name, altered)
        if altered and not current and len(configs.subscriptions()) >= SUBSCRIPTIONS_MAX:
            reason = f"There can be no more than {SUBSCRIPTIONS_MAX} subscriptions."
            raise ApiError(ErrorCode.POLICY_VIOLATION, reason)
        return altered

    if not alteration.name:
        decide({})
    await broker.config_writer.change(
        (paths.SUBSCRIPTION_CONFIGS, alteration.name), decide, validate_only=validate_only
    )


def _topic_configs(
    broker: Broker, alteration: Alteration, current: Mapping[str, str]
) -> Mapping[str, str]:
    altered = alteration.applied(current, TOPIC)
    if not alteration.name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(alteration.name)
    validate_topic_configs(altered, broker.settings)
    return altered


def _refuse_topic(broker: Broker, alteration: Alteration) -> NoReturn:
    """Refuse an unknown topic, but report other errors of the request first."""
    _topic_configs(broker, alteration, {})
    reason = f"The topic '{alteration.name}' does not exist."
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)


def _broker_configs(
    broker: Broker, alteration: Alteration, current: Mapping[str, str]
) -> Mapping[str, str]:
    of_one = bool(alteration.name)
    found = (broker_row(change.name) for change in alteration.changes)
    rows = {row.name: row for row in found if row is not None}
    in_force, _ = usable(current, of_one_broker=of_one)
    altered = alteration.applied(in_force, rows)
    try:
        check_size(altered)
        check_layer(altered, of_one_broker=of_one)
        now = broker.settings
        dynamic = (
            replace(now.dynamic, broker=altered)
            if of_one
            else replace(now.dynamic, default=altered)
        )
        check_change(
            altered,
            value_of(effective_given(now.given, now.dynamic)),
            value_of(effective_given(now.given, dynamic)),
        )
        now.with_dynamic(dynamic)
    except Unsupported as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    except BadValue as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, "; ".join(error.problems)) from error
    return altered if in_force == current else alteration.applied(current, rows)

"""The sub-commands of `kavka transactions`, and what of their options goes together."""

from __future__ import annotations

from typing import Final

from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import BROKERS, Given, Option, SubCommand

TOPIC: Final = Option("topic", "A topic.", "TOPIC")
PARTITION: Final = Option("partition", "A partition of --topic.", "N", is_number=True)
BROKER: Final = Option("broker-id", "A replica to ask instead of the leader.", "ID", is_number=True)
START: Final = "start-offset"
OLDER: Final = (
    Option("producer-id", "For brokers before 3.0.", "ID", is_number=True, bits=64),
    Option("producer-epoch", "The same.", "N", is_number=True, bits=16),
    Option("coordinator-epoch", "The same.", "N", is_number=True),
)

COMMANDS: Final = (
    SubCommand(
        "list",
        "List transactional ids with their states.",
        (
            Option(
                "duration-filter",
                "Only transactions that have been running for longer, in ms; all if negative.",
                "MS",
                is_number=True,
                bits=64,
            ),
            Option("transactional-id-pattern", "Only ids that match, as RE2 has it.", "REGEX"),
        ),
    ),
    SubCommand(
        "describe",
        "Print the state of a transactional id.",
        (Option("transactional-id", "Which.", "ID", is_required=True),),
    ),
    SubCommand(
        "describe-producers",
        "Print the active producers of a partition.",
        (BROKER, *(option._replace(is_required=True) for option in (TOPIC, PARTITION))),
    ),
    SubCommand(
        "abort",
        "Abort a transaction that hangs.",
        (
            *(option._replace(is_required=True) for option in (TOPIC, PARTITION)),
            Option(START, "Its first offset.", "OFFSET", is_number=True, bits=64),
            *OLDER,
        ),
        text_only=True,
    ),
    SubCommand(
        "find-hanging",
        "Find transactions that are open without a coordinator that knows them.",
        (
            BROKER._replace(help="Only replicas on this broker."),
            Option(
                "max-transaction-timeout",
                "In minutes: shorter ones are left out; 15 by default.",
                "N",
                is_number=True,
            ),
            TOPIC,
            PARTITION,
        ),
    ),
    SubCommand(
        "forceTerminateTransaction",
        "Abort the ongoing transaction of a transactional id.",
        (Option("transactionalId", "Which.", "ID", is_required=True),),
        text_only=True,
    ),
)


def check(given: Given) -> None:
    """Refuse what does not go together."""
    if not given.has(BROKERS.name):
        raise Misused("argument --bootstrap-server is required")
    command = given.command.name if given.command else ""
    if command == "find-hanging":
        if not given.has("topic") and not given.has("broker-id"):
            raise Misused(
                "The `find-hanging` command requires either --topic or --broker-id to limit the "
                "scope of the search"
            )
        if given.has("partition") and not given.has("topic"):
            raise Misused("The --partition argument requires --topic to be provided")
    if command == "abort" and not given.has(START):
        if not given.has("producer-id"):
            raise Misused(
                "The transaction to abort must be identified either with --start-offset (for "
                "brokers on 3.0 or above) or with --producer-id, --producer-epoch, and "
                "--coordinator-epoch (for older brokers)"
            )
        for option in OLDER:
            if not given.has(option.name):
                raise Misused(f"Missing required argument --{option.name}")

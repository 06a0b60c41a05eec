"""Prints `docs/configuration.md` from the table of settings; `make pages` puts it there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kavka.server.config.dynamic_rules import is_accepted_dynamically
from kavka.server.config.rows import Config, Scope, Status
from kavka.server.config.table import TOPIC, broker_rows
from kavka.server.config.value_types import to_text

_SHOWN: Final = (
    "broker.id.generation.",
    "controlled.shutdown.",
    "group.consumer.regex.",
    "kavka.",
    "log.message.downconversion.",
    "message.downconversion.",
    "replica.alter.log.dirs.io.",
    "reserved.broker.",
    "zookeeper.",
)

_HEAD: Final = """\
# Settings

This page is made from the table of settings in `server/config`: change it there, then run
`make pages`.

Names, types, defaults and bounds are those of Apache Kafka 4.3.1; names that only Kafka 3.9 has are
known too. Settings come from four places, the later ones winning:

1. the defaults below,
2. a file in Java's `.properties` format, in UTF-8: `kavka start --config server.properties`,
3. environment variables: `KAVKA_LOG_DIRS` sets `log.dirs`,
4. the command line: `--override log.dirs=/var/lib/kavka`.

An invalid value stops the start; the error has the name, the value, where it was given and what is
allowed. A setting that Kavka does not honour stops the start or gives a warning, see the last two
sections. An unknown name gives a warning, with a suggestion. One start reports all of these:
[from-server-properties.md](from-server-properties.md).

## Changes while the broker runs

`kafka-configs`, and any client that can alter configs, sets and unsets the configs of a topic, and
those settings of brokers whose "Changes" below is not "read-only": for one broker, or as default
of all brokers (cluster-wide). These dynamic configs override the four places above and survive a
restart. A change is in force when the response is sent, in open logs and connections too. (With
thousands of partitions the last logs follow a moment later.)

Settings that Kavka can't honour are refused. Those without effect yet are stored and shown, with a
warning in the log, and so are settings of listeners with TLS or SASL (see the end of this page).
Listeners, which Apache Kafka can add and remove while it runs, are read-only here. Unknown names
are stored, as in Apache Kafka; their values are never shown.

The levels of loggers (`--entity-type broker-loggers`) have Kafka's names, `TRACE` to `FATAL`, and
last until the broker stops. `root` is the logger of all that have no level of their own.
"""
_BROKER: Final = "\n## Broker\n"
_TOPIC: Final = """
## Topic

Given with the topic; the default is the broker setting in the last column. A time with broker
settings in several units takes the first of them that is set.
"""
_NO_EFFECT: Final = """
## Known, without effect so far

A value other than the default gives a warning, at start-up or when a topic is created with it.
Defaults are in brackets.
"""
_REFUSED: Final = """
## Refused

A broker that ignored these would be unsafe, or would not do what it is configured for, so any value
but the default (in brackets) stops the start, or the creation of the topic.
"""
_ACCEPTED_DYNAMICALLY: Final = """
A running broker nevertheless accepts these from `kafka-configs` and other admin clients, for itself
or one of its listeners, with a warning in the log: they apply only to listeners with TLS or SASL,
and have no effect without one in Apache Kafka either. Secrets (passwords, keys,
`sasl.jaas.config`) are refused there too: they are not stored before they can be used. So are
`principal.builder.class` and `config.providers`, which would apply without such a listener.
"""


def _default(row: Config) -> str:
    text = to_text(row.default)
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _table(rows: Iterable[Config], last: str) -> Iterator[str]:
    yield f"| Setting | Default | Allowed | What it does | {last} |"
    yield "|---|---|---|---|---|"
    for row in rows:
        end = row.dynamic.value
        if row.scope is Scope.TOPIC:
            end = ", ".join(f"`{key}`" for key, _ in row.fallback) or "none"
        yield f"| `{row.name}` | {_default(row)} | {_cell(row.allowed)} | {row.doc} | {end} |"


def _groups(rows: Sequence[Config]) -> Iterator[str]:
    """Names grouped by the reason why they are not honoured, in order of first occurrence."""
    notes = dict.fromkeys(row.note for row in rows)
    for note in notes:
        names = (f"`{row.name}` ({_default(row)})" for row in rows if row.note == note)
        yield f"- {_capitalised(note)}: {', '.join(names)}."


def _capitalised(note: str) -> str:
    """The note with a capital letter, unless it begins with the name of a setting."""
    return note if note.startswith("kavka.") else note[0].upper() + note[1:]


def page() -> str:
    """The whole page."""
    broker = broker_rows()
    topic = sorted(TOPIC.values(), key=lambda row: row.name)
    lines = [_HEAD, _BROKER, *_table(_honoured(broker), "Changes")]
    lines += [_TOPIC, *_table(_honoured(topic), "Default from")]
    for head, status in ((_NO_EFFECT, Status.WARNED), (_REFUSED, Status.REFUSED)):
        lines += [head, "Topic:\n", *_groups([row for row in topic if row.status is status])]
        lines += ["\nBroker:\n", *_groups([row for row in broker if row.status is status])]
    taken = [row for row in broker if row.status is Status.REFUSED and is_accepted_dynamically(row)]
    lines += [_ACCEPTED_DYNAMICALLY, ", ".join(f"`{row.name}`" for row in taken) + "."]
    return "\n".join(lines) + "\n"


def _honoured(rows: Iterable[Config]) -> list[Config]:
    """Honoured rows without internal ones, except some of Kavka's."""
    shown = (row for row in rows if not row.internal or row.name.startswith(_SHOWN))
    return [row for row in shown if row.status is Status.HONOURED]


if __name__ == "__main__":
    print(page(), end="")

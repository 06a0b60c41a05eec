"""What other tests than recorded sessions compare: rows of the second table of `docs/tools.md`.

A row names the tests that it is made of; `test_elsewhere.py` checks that they are there, and that
they run these words.
"""

from __future__ import annotations

from typing import Final, NamedTuple

YES: Final = "\u2713"
NOT_BUILT: Final = "not built yet"
REFUSED: Final = "refused: not built yet"
NONE: Final = "there is none"


class Row(NamedTuple):
    """A tool, or what it is asked to do, and the tests of it, from below `tests/commands`: `kavka`
    and `apache` name the broker's kind."""

    action: str
    words: tuple[str, ...]
    """What stands in the files of the tests: such as the options of a command line."""
    kavka: str
    """The test with Kavka as the broker; "" where it lacks what the tool needs."""
    apache: str
    """And with Apache Kafka."""
    is_refused: bool = False
    """What is tested with Kavka as the broker is that it refuses."""
    is_own: bool = False
    """Apache Kafka has no such tool."""

    @property
    def tests(self) -> tuple[str, ...]:
        """All that it names."""
        return tuple(filter(None, (self.kavka, self.apache)))

    @property
    def marks(self) -> tuple[str, str, str]:
        """The columns: Apache Kafka's tool on Kavka, Kavka's on Kavka, Kavka's on Apache Kafka."""
        on_kavka = REFUSED if self.is_refused else YES if self.kavka else NOT_BUILT
        return NONE if self.is_own else on_kavka, on_kavka, YES

    @property
    def files(self) -> tuple[str, ...]:
        """Those of the tests, each once."""
        return tuple(dict.fromkeys(test.partition("::")[0] for test in self.tests))


def _both(
    file: str, test: str, kavka: str = "kavka", apache: str = "Apache Kafka"
) -> tuple[str, str]:
    """The ids of a test with brokers of either kind."""
    return f"{file}.py::{test}[{kavka}]", f"{file}.py::{test}[{apache}]"


_ALIKE: Final = "test_both_tools_say_the_same"
_FEATURES: Final = _both("test_features", _ALIKE)
_LET_IN: Final = "test_tools_are_let_in_as_apache_kafka_s"
_CLUSTERS: Final = "test_on_clusters"
_TAPPED: Final = "test_a_stock_client_notices_nothing_and_all_it_says_is_decoded"
_MIRRORED: Final = "test_each_record_is_there_once_whatever_is_killed"

ROWS: Final = (
    Row(
        "any tool, `--command-config` with TLS",
        ("TLS", "MUTUAL", "--command-config"),
        "",
        f"test_secured.py::{_LET_IN}",
    ),
    Row(
        "any tool, `--command-config` with SASL",
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "--command-config"),
        "",
        f"test_secured.py::{_LET_IN}",
    ),
    Row(
        "any tool, `--command-config` with Kerberos",
        ("GSSAPI", "--command-config"),
        "",
        f"test_kerberos.py::{_LET_IN}",
    ),
    Row(
        "any tool, `--command-config` with Java's stores",
        ("JKS", "PKCS12"),
        "",
        "test_java_stores.py::test_a_client_with_java_s_stores_is_let_in[JKS]",
    ),
    Row(
        "console and perf tools, with TLS and SASL",
        ("console_consumer.TOOL", "consumer_perf_test.TOOL", "e2e_latency.TOOL"),
        "",
        "test_secured.py::test_clients_are_let_in[BOTH-SCRAM-SHA-512]",
    ),
    Row(
        "delegation-tokens",
        ("--create", "--describe", "--renew", "--expire"),
        "test_delegation_tokens.py::test_both_tools_refuse_the_same[kavka]",
        "test_delegation_tokens.py::test_both_tools_manage_tokens_alike",
        is_refused=True,
    ),
    Row(
        "doctor `--bootstrap-server`",
        ("examined(broker.bootstrap",),
        *_both("test_doctor_cluster", "test_each_fault_is_named", apache="apache"),
        is_own=True,
    ),
    Row(
        "doctor, log directories",
        ("doctor",),
        *_both(
            "test_doctor_directory", "test_nothing_is_found_where_logs_were_compacted_and_deleted"
        ),
        is_own=True,
    ),
    Row(
        "features `disable`, of features that there are",
        ("disable --dry-run --feature streams",),
        *_FEATURES,
    ),
    Row(
        "features `downgrade`, of features that there are",
        ("downgrade --dry-run --feature share",),
        *_FEATURES,
    ),
    Row(
        "leader-election `preferred`, three brokers",
        ("--election-type preferred --path-to-json-file", "(PREFERRED) for partitions kavka-0"),
        "test_elections_and_deletions.py::test_elections_on_three_brokers",
        "test_unclean_elections.py::test_a_replica_out_of_sync_is_elected[apache]",
    ),
    Row(
        "leader-election `unclean`, three brokers",
        ("--election-type unclean --topic",),
        *_both("test_unclean_elections", "test_a_replica_out_of_sync_is_elected", apache="apache"),
    ),
    Row(
        "mirror",
        ("Kavka to Apache Kafka", "Apache Kafka to Kavka"),
        *_both("test_mirror", _MIRRORED, "Kavka to Kavka", "Kavka to Apache Kafka"),
        is_own=True,
    ),
    Row(
        "mirror, with TLS and SASL",
        ("SASL", "MUTUAL"),
        "",
        "test_mirror_secured.py::test_it_is_let_in[to there-BOTH-SCRAM-SHA-512]",
        is_own=True,
    ),
    Row(
        "reassign-partitions, three brokers",
        ("--execute --reassignment-json-file", "--verify", "--cancel", "--list"),
        *_both(_CLUSTERS, "test_both_tools_move_partitions_alike", apache="apache"),
    ),
    Row(
        "reassign-partitions `--generate`, three brokers",
        ("--generate --topics-to-move-json-file",),
        *_both(
            _CLUSTERS, "test_both_tools_propose_places_alike", "kavka-1,2,3", apache="apache-1,2,3"
        ),
    ),
    Row(
        "replica-verification, three brokers",
        ("--broker-list", "--topics-include", "--report-interval-ms"),
        *_both(_CLUSTERS, "test_both_verifications_report_alike", apache="apache"),
    ),
    Row(
        "tap",
        ("Tap(",),
        *_both("test_tap", _TAPPED, "kavka-kafka-python", "Apache Kafka-kafka-python"),
        is_own=True,
    ),
    Row(
        "transactions `forceTerminateTransaction`, of an open transaction",
        ("forceTerminateTransaction --transactionalId",),
        *_both("test_transactions", _ALIKE),
    ),
)

HEAD: Final = (
    "| tool | tests | Apache Kafka's tool on Kavka | Kavka's tool on Kavka"
    " | Kavka's tool on Apache Kafka |\n|---|---|---|---|---|\n"
)


def table() -> str:
    """A line for each row."""
    return HEAD + "".join(
        f"| {row.action} | {', '.join(f'`{file}`' for file in row.files)}"
        f" | {' | '.join(row.marks)} |\n"
        for row in ROWS
    )

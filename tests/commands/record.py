"""`python -m commands.record [SESSION...]`: record sessions anew with Apache Kafka's tools."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from commands.players import Stage, apache_kafka
from commands.recorded import SESSIONS, Run, runs, write
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import running

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
}
APPLIED_WITHIN_S = 1.0


class WithoutElr(ApacheKafka):
    """Without eligible leader replicas (KIP-966): they write a min.insync.replicas of the cluster,
    which brokers of Kavka's kind do not have."""

    def _format(self, properties: Mapping[str, str], *options: str) -> None:
        super()._format(properties, *options, "--feature", "eligible.leader.replicas.version=0")


def main() -> None:
    """Play all sessions; write those that were asked for, or all."""
    chosen = sys.argv[1:] or SESSIONS
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        broker = WithoutElr(home / "broker", SETTINGS)
        with running([broker]), Tools(home / "tools.log") as tools:
            stage = Stage(apache_kafka(tools), broker, home)
            for session in SESSIONS:
                done = [_recorded(stage, run) for run in runs(session)]
                if session in chosen:
                    write(session, done)


def _recorded(stage: Stage, run: Run) -> Run:
    if run.reads:
        time.sleep(APPLIED_WITHIN_S)  # Apache Kafka answers before its broker has applied a change
    found, errors = stage.play(run)
    print(f"$ {found.line}\n{found.printed}{errors}rc={found.exit_code}")
    return found


if __name__ == "__main__":
    main()

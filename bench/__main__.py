"""`python -m bench`: measure Kavka and Apache Kafka side by side and print the table."""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from bench import cluster_session, cluster_stages, machine, profiling, report, spark, stages
from bench.helper import Helper
from bench.run import Options, Results, Run, quantile
from bench.session import PEERS, measure
from bench.spark_process import SparkProcess
from support.ports import free_port

OPEN_FILES = 8192
ECHO_S = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 when a stage failed. Aims that are missed are for the reader to judge."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        clusters = cluster_session.is_asked_for(arguments.only)
    except ValueError as error:
        parser.error(f"--only: {error}")
    _allow_open_files()
    signal.signal(signal.SIGTERM, _end)
    options = Options(
        rounds=arguments.rounds,
        warm_pages=not arguments.cold_pages,
        quiet_wait_s=arguments.quiet_wait,
        spark_records=arguments.spark_records,
        cluster_bytes=arguments.cluster_mb * 1_000_000,
        catch_up_bytes=arguments.catch_up_mb * 1_000_000,
        kills=arguments.kills,
        apache_kills=arguments.apache_kills,
    )
    with tempfile.TemporaryDirectory(prefix="kavka-bench-", dir=arguments.dir) as scratch:
        with Helper() as helper, SparkProcess(Path(scratch) / "spark") as spark_process:
            if arguments.profile:
                home = Path(scratch) / "kavka"
                print(_profile(home, helper, spark_process, options, arguments.profile))
                return 0
            facts = _look_at_machine(helper, Path(scratch))
            names = list(PEERS) if arguments.peer == "both" else [arguments.peer]
            home, only = Path(scratch), arguments.only
            if clusters:
                found = cluster_session.measure(names, home, helper, options, only)
            else:
                found = measure(names, home, helper, spark_process, options, only)
    print()
    print(report.table(found.get("kavka"), found.get("apache")))
    print(f"{report.DISTURBED}\n")
    for results in found.values():
        print(*report.summary(results), sep="\n")
    if "kavka" in found and (misses := report.missed(found["kavka"], found.get("apache"))):
        print("Aims missed:", *misses, sep="\n  ")
    if arguments.out:
        document = report.as_json(facts, list(found.values()))
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(results.failures for results in found.values()))


def _end(signum: int, _: FrameType | None) -> None:
    """Asked to end, the bench ends its brokers, too, which outlive it otherwise."""
    sys.exit(128 + signum)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--peer", choices=[*PEERS, "both"], default="both")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="STAGE,..",
        help="stages whose name begins with one of these (warm-up always runs); of "
        + ", ".join(stage.name for stage in stages.STAGES)
        + "; or, for clusters of three brokers beside Apache Kafka 3.9 with ZooKeeper, cluster, or "
        + ", ".join(stage.name for stage in cluster_stages.STAGES),
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of the main rows (default 3)")
    parser.add_argument("--out", type=Path, help="also write everything as JSON to this file")
    parser.add_argument("--dir", type=Path, help="directory for the data (default: the system's)")
    parser.add_argument(
        "--cold-pages",
        action="store_true",
        help="don't touch the memory for the page cache before a bulk run",
    )
    parser.add_argument(
        "--quiet-wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="wait so long in all, for each broker, while others use the machine (default 60)",
    )
    parser.add_argument(
        "--spark-records",
        type=int,
        default=spark.RECORDS,
        metavar="COUNT",
        help=f"records that Spark reads (default {spark.RECORDS:,})",
    )
    _add_cluster_options(parser)
    parser.add_argument(
        "--profile",
        choices=[stage.name for stage in stages.STAGES],
        help="instead: run Kavka alone through one stage and print where its time goes",
    )
    return parser


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster-mb",
        type=int,
        default=500,
        metavar="MB",
        help="values that each bulk run writes to a cluster (default 500)",
    )
    parser.add_argument(
        "--catch-up-mb",
        type=int,
        default=5000,
        metavar="MB",
        help="what a follower with an empty disk has to fetch (default 5000)",
    )
    parser.add_argument(
        "--kills",
        type=int,
        default=30,
        metavar="COUNT",
        help="brokers of Kavka that each cluster-failover stage kills, in turn (default 30)",
    )
    parser.add_argument(
        "--apache-kills",
        type=int,
        default=3,
        metavar="COUNT",
        help="and of Apache Kafka, which takes about a minute for each (default 3)",
    )


def _allow_open_files() -> None:
    """Room for a thousand idle connections, here and (inherited) in the brokers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _look_at_machine(helper: Helper, scratch: Path) -> dict[str, object]:
    port = free_port()
    echo = helper.start(machine.echo_once, port)
    latencies = machine.echo_latencies(port, ECHO_S)
    echo.result(machine.ECHO_TIMEOUT_S)
    pages = machine.page_cost(scratch)
    facts = {
        **machine.facts(),
        "echo_p50_ms": quantile(latencies, 0.5) / 1e6,
        "echo_p99_ms": quantile(latencies, 0.99) / 1e6,
        "page_cache_cold_cpu_s_per_gb": round(pages.cold, 2),
        "page_cache_warm_cpu_s_per_gb": round(pages.warm, 2),
    }
    for name, value in facts.items():
        print(f"{name}: {value}", flush=True)
    return facts


def _profile(
    home: Path, helper: Helper, spark_process: SparkProcess, options: Options, name: str
) -> str:
    (stage,) = (stage for stage in stages.STAGES if stage.name == name)
    with profiling.profiled(home) as peer:
        peer.prepare()
        results = Results(peer.name)
        stages.start(peer, results)
        run = Run(peer, helper, spark_process, options, results)
        stages.warm_up(run)
        if stage.act in (spark.read, spark.sink):
            spark.fill(run)  # else it would be in the profile
        return profiling.profile(run, stage.act)


if __name__ == "__main__":
    sys.exit(main())

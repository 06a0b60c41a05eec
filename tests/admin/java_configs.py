"""Java's AdminClient: settings of groups and subscriptions to metrics of clients, by kafka-configs
and kafka-client-metrics."""

from __future__ import annotations

from typing import Final

from admin.cells import cells
from admin.java_tools import CLIENT, CONFIGS, PACKAGE, Returned, changing, run
from admin.place import Place
from support.java_tools import Tools

CLIENT_METRICS: Final = f"{PACKAGE}.ClientMetricsCommand"
GROUP: Final = "configured"
SUBSCRIPTION: Final = "subscribed"

does = CLIENT.does


@cells
def alter_group(tools: Tools, place: Place, *changes: str) -> Returned:
    """kafka-configs to a group, and what it describes after that."""
    entity = ("--entity-type=groups", f"--entity-name={place.topic(GROUP)}")
    printed = [changing(tools, place, CONFIGS, "--alter", *entity, change) for change in changes]
    printed.append(run(tools, place, CONFIGS, "--describe", *entity))
    return printed, sorted(run(tools, place, CONFIGS, "--describe", "--all", *entity))


TIMES: Final = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"
does("set a group's settings")(alter_group(f"--add-config={TIMES}"))
does("set a share group's settings")(
    alter_group("--add-config=share.auto.offset.reset=earliest,share.delivery.count.limit=3")
)
does("set a group's setting out of bounds")(
    alter_group("--add-config=consumer.session.timeout.ms=1")
)
does("delete a group's settings")(
    alter_group(
        "--delete-config=consumer.session.timeout.ms,consumer.heartbeat.interval.ms",
        "--delete-config=share.auto.offset.reset,share.delivery.count.limit",
    )
)


@cells
def subscribe(tools: Tools, place: Place, *options: str, step: str = "--alter") -> Returned:
    """kafka-client-metrics to a subscription, and what it lists and describes after that."""
    name = f"--name={place.topic(SUBSCRIPTION)}"
    printed = changing(tools, place, CLIENT_METRICS, step, name, *options)
    listed = place.own(run(tools, place, CLIENT_METRICS, "--list"))
    return printed, listed, run(tools, place, CLIENT_METRICS, "--describe", name)


does("subscribe to metrics of clients")(
    subscribe("--metrics=org.apache.kafka.producer.", "--interval=1000", "--match=client_id=app.*")
)
does("subscribe to metrics of clients too often")(subscribe("--interval=1"))
does("subscribe to metrics of clients by a bad pattern")(subscribe("--match=client=app"))


@does("subscribe to metrics of clients at no interval")
def _(tools: Tools, place: Place) -> Returned:
    entity = ("--entity-type=client-metrics", f"--entity-name={place.topic(SUBSCRIPTION)}")
    return run(tools, place, CONFIGS, "--alter", *entity, "--add-config=interval.ms=bbb")


does("subscribe to all metrics of clients")(subscribe("--metrics=*", "--interval="))
does("unsubscribe from metrics of clients")(subscribe(step="--delete"))

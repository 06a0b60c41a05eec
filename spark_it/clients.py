"""kafka-python's settings out of those of Kafka's Java clients, which the options of pipelines are.

A pipeline whose records Spark's Kafka sink cannot write (it has no timestamps, and no order between
tasks) writes them with kafka-python's producer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import nearest

PEM_STORES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "ssl.truststore.location": ("ssl_cafile", "ssl.truststore.type"),
        "ssl.keystore.location": ("ssl_certfile", "ssl.keystore.type"),
        "ssl.key.password": ("ssl_password", "ssl.keystore.type"),
    }
)
"""Of stores that are files of PEM: kafka-python's name, and which setting says that they are."""

STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
JAAS: Final = "sasl.jaas.config"
HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaConsumer

T = TypeVar("T")

RETRIED_WITHIN_S: Final = 60.0
RETRY_AFTER_S: Final = 0.1

_JAAS_USER: Final = re.compile(r'\busername="((?:[^"\\]|\\.)*)"')
_JAAS_PASSWORD: Final = re.compile(r'\bpassword="((?:[^"\\]|\\.)*)"')


def client_settings(bootstrap_server: str, kafka: Mapping[str, str]) -> dict[str, Any]:
    """Settings of kafka-python for the cluster at `bootstrap_server`, HOST:PORT with commas.

    `kafka` has settings by the names of Kafka's Java clients. SparkError for one that kafka-python
    does not have, and for stores of keys that are not PEM.
    """
    from kafka import KafkaProducer

    known = {name.replace("_", "."): name for name in KafkaProducer.DEFAULT_CONFIG}
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap_server.split(",")}
    for name, value in kafka.items():
        if name in STORE_TYPES:
            if value.upper() != "PEM":
                raise SparkError(f"kafka.{name}: {value}: kafka-python reads PEM only")
        elif name in PEM_STORES:
            own, kind = PEM_STORES[name]
            if kind not in kafka:
                raise SparkError(f"kafka.{name}: kafka-python reads PEM only: set {kind}=PEM")
            settings[own] = value
        elif name == JAAS:
            settings |= _login(value)
        elif name == HOST_CHECK:
            settings["ssl_check_hostname"] = bool(value)
        elif name in known:
            settings[known[name]] = _typed(name, value, KafkaProducer.DEFAULT_CONFIG[known[name]])
        else:
            raise SparkError(
                f"kafka.{name}: kafka-python, which writes the records, has no such setting"
                + nearest(name, known)
            )
    return settings


def administered(settings: Mapping[str, Any], call: Callable[[KafkaAdminClient], T]) -> T:
    """What `call` gives for an admin client. It is called again, for a minute, after errors that
    pass, such as a coordinator that is not there yet: the client itself does not. Then KafkaError.
    """
    from kafka import KafkaAdminClient

    return _called(KafkaAdminClient, settings, call)


def consumed(settings: Mapping[str, Any], call: Callable[[KafkaConsumer], T]) -> T:
    """As `administered`, for a consumer; `settings` may have those of consumers too."""
    from kafka import KafkaConsumer

    return _called(KafkaConsumer, settings, call)


def _called(client: Any, settings: Mapping[str, Any], call: Callable[[Any], T]) -> T:
    from kafka.errors import KafkaError

    deadline = time.monotonic() + RETRIED_WITHIN_S
    while True:
        try:
            with closing(client(**of_client(client, settings))) as connected:
                return call(connected)
        except KafkaError as failure:
            if not failure.retriable or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_AFTER_S)


@contextmanager
def kafka_errors(prefix: str) -> Iterator[None]:
    """Makes SparkError of kafka-python's errors; `prefix` begins the message."""
    from kafka.errors import KafkaError

    try:
        yield
    except KafkaError as failure:
        raise SparkError(f"{prefix}: {failure}") from failure


def of_client(client: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that a class of kafka-python has: its admin client and its
    consumer lack some of its producer's."""
    return {name: value for name, value in settings.items() if name in client.DEFAULT_CONFIG}


def _login(jaas: str) -> dict[str, str]:
    user, password = _JAAS_USER.search(jaas), _JAAS_PASSWORD.search(jaas)
    if user is None or password is None:
        raise SparkError(f'kafka.{JAAS}: username="..." and password="..." are not in it')
    return {
        "sasl_plain_username": _unescaped(user[1]),
        "sasl_plain_password": _unescaped(password[1]),
    }


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _typed(name: str, value: str, default: object) -> object:
    """A value of the type that the setting's default has."""
    if isinstance(default, bool):
        return value.lower() == "true"
    if isinstance(default, (int, float)):
        try:
            return type(default)(value)
        except ValueError:
            raise SparkError(f"kafka.{name}: {value!r} is not a number") from None
    return value

"""`kavka mirror` between clusters that ask who it is, by passwords and by certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import mirroring
from commands.sessions import kavka
from kavka.tools.admin import configs
from kavka.tools.admin.command import main
from kavka.tools.mirror.mirror import TOOL
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.process import running
from support.secure_kafka import PASSWORD, SecureKafka

WAYS = [("BOTH", "SCRAM-SHA-512"), ("SASL", "PLAIN"), ("MUTUAL", "")]
RECORDS = 200


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    java.program("java")
    broker = SecureKafka(tmp_path_factory.mktemp("secured"), mirroring.SETTINGS)
    with running([broker]):
        line = f"--alter --user alice --add-config 'SCRAM-SHA-512=[password={PASSWORD}]'"
        assert kavka(configs.TOOL, broker, line).exit_code == 0
        yield broker


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kavka]:
    broker = Kavka(tmp_path_factory.mktemp("plain"), mirroring.SETTINGS)
    with running([broker]):
        yield broker


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
@pytest.mark.parametrize("to_secured", [False, True], ids=["from there", "to there"])
def test_it_is_let_in(
    secured: SecureKafka, plain: Kavka, listener: str, mechanism: str, to_secured: bool
) -> None:
    source, target = (plain, secured) if to_secured else (secured, plain)
    name = f"{listener}-{'to' if to_secured else 'from'}"
    topics = [f"plain-{name}", f"transactions-{name}"]
    for topic in topics:
        create_topic(source.bootstrap, topic, mirroring.PARTITIONS)
    mirroring.fill(source.bootstrap, topics, RECORDS)
    offsets = {(topic, 0): 7 for topic in topics}
    mirroring.commit(source.bootstrap, name, offsets)
    file = secured.client(listener, "mirror")
    if mechanism:
        file = secured.user(listener, "alice", mechanism)
    side, other = ("target", "source") if to_secured else ("source", "target")
    words = f"--{side} {secured.at(listener)} --{side}-config {file} --{other} {plain.bootstrap}"
    words += f" --include .*-{name} --name {name} --groups {name} --until-caught-up"
    assert main(TOOL, words.split()) == 0
    here, there = (mirroring.read(broker.bootstrap, topics) for broker in (source, target))
    assert sum(map(len, here.values())) and not [*mirroring.differences(here, there)]
    translated = mirroring.committed(target.bootstrap, name, topics)
    assert not [*mirroring.misplaced(here, there, offsets, translated)]


@pytest.mark.parametrize(
    ("side", "listener", "password", "said"),
    [
        ("source", "SASL", "wrong", "Invalid username or password"),
        ("target", "BOTH", "wrong", "Invalid username or password"),
        ("target", "TLS", PASSWORD, "takes no login"),
    ],
)
def test_why_it_is_not_let_in(
    secured: SecureKafka,
    plain: Kavka,
    capsys: pytest.CaptureFixture[str],
    side: str,
    listener: str,
    password: str,
    said: str,
) -> None:
    file = secured.user(listener, "alice", "PLAIN", password)
    file.write_text(file.read_text().replace("protocol=SSL", "protocol=SASL_SSL"))
    other = "target" if side == "source" else "source"
    words = f"--{side} {secured.at(listener)} --{side}-config {file} --{other} {plain.bootstrap}"
    assert main(TOOL, [*words.split(), "--topic", "t"]) == 1
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1, printed
    assert printed.out == ""


def test_settings_that_are_wrong_are_named_with_their_side(
    plain: Kavka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")
    words = f"--source h:1 --target {plain.bootstrap} --topic t --target-config {file}"
    assert main(TOOL, words.split()) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("--target-config: sasl.jaas.config is needed for a login")
    assert printed.count("\n") == 1

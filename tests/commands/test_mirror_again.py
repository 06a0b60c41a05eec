"""`kavka mirror` when a topic is to be copied again, and while the target is down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from commands import mirroring
from commands.test_mirror_changes import create, differences, run, write_large
from kavka.tools.mirror import ledger_topic
from kavka.tools.mirror import report as report_module
from kavka.tools.mirror import session as session_module
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.report import Report
from kavka.tools.mirror.writer import Writer
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.process import running
from support.spark import delete_topic


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kavka, Kavka]]:
    with mirroring.kavkas(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


def refill(source: Kavka, topic: str, *sizes: int) -> None:
    """In the place of the topic that was there."""
    delete_topic(source.bootstrap, topic)
    create(source, topic, *sizes)


def test_who_does_as_it_says_has_one_topic_copied_again_and_no_other(
    pair: tuple[Kavka, Kavka], capsys: pytest.CaptureFixture[str]
) -> None:
    """The option given once more does no harm."""
    source, target = pair
    for topic in ("anew-a", "anew-b"):
        create(source, topic, *[10] * 10)
    assert run(pair, "anew-.*") == 0
    refill(source, "anew-a", *[20] * 5)
    capsys.readouterr()
    assert run(pair, "anew-.*") == 1
    printed = capsys.readouterr()
    assert [*map(str.split, printed.out.splitlines()[1:3])] == [
        ["anew-a", "0", "0", "10", "0"],
        ["anew-a", "1", "0", "0", "0"],
    ]
    words = re.search(
        r"or delete it in the target and .* again \((--copy-again \S+)\)", printed.err
    )
    assert words is not None, printed.err
    assert run(pair, "anew-.*", *words[1].split()) == 1
    assert "topic anew-a is not empty in the target: delete it" in capsys.readouterr().err
    assert run(pair, "anew-.*") == 1, "nothing is forgotten if it is refused"
    delete_topic(target.bootstrap, "anew-a")
    assert run(pair, "anew-.*", *words[1].split()) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(pair, "anew-.*", *words[1].split()) == 1
    said = capsys.readouterr().err
    assert said.endswith("it was copied since, leave out --copy-again anew-a\n")
    write_large(source, "anew-a", 30)
    assert run(pair, "anew-.*") == 0
    assert capsys.readouterr().err == ""
    assert not differences(pair, "anew-a", 6)
    assert not differences(pair, "anew-b", 10)


def test_it_is_forgotten_once_however_often_it_begins_anew(
    pair: tuple[Kavka, Kavka], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was copied since would be found in the target else."""
    source, target = pair
    create(source, "once", *[10] * 10)
    assert run(pair, "once") == 0
    refill(source, "once", *[20] * 10)
    delete_topic(target.bootstrap, "once")
    delivered, left = Writer.delivered, [True]

    def killed(writer: Writer) -> Any:
        """The target, when all was sent and nothing is committed."""
        found = delivered(writer)
        if found and left:
            left.pop()
            target.kill()
            target.launch()
            raise Again("the target was killed")
        return found

    monkeypatch.setattr(Writer, "delivered", killed)
    assert run(pair, "once", "--copy-again", "once") == 0, capsys.readouterr().err
    assert "begins anew: the target was killed" in capsys.readouterr().err
    assert not left
    assert not differences(pair, "once", 10)


def test_what_others_have_written_to_the_target_is_said(
    pair: tuple[Kavka, Kavka], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two sources may have one topic for a target; it is said by who comes later, once."""
    source, target = pair
    for broker in pair:
        create(broker, "shared", *[10] * 5)
    said = []
    for _ in range(2):
        assert run(pair, "shared") == 0
        said.append(capsys.readouterr().err)
    text = "shared has records in the target already that this mirror has not written: what it "
    assert said == [f"{text}copies comes behind them\n", ""]
    assert sum(map(len, mirroring.read(target.bootstrap, ["shared"]).values())) == 10


def at_call(count: int, before: Callable[[], object]) -> Callable[..., Any]:
    """Writer's calls that wait for the target, with something done before that one."""
    patiently, calls = Writer._patiently, iter(range(1, 100))

    def waits(*given: Any) -> None:
        if next(calls) == count:
            before()
        patiently(*given)

    return waits


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("init", "let the mirror begin to write"),
        ("commit", "ended a transaction"),
        ("read", "given all of kavka-mirror-t"),
    ],
)
def test_a_target_that_is_down_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    moment: str,
    said: str,
) -> None:
    """It starts again when that is said."""
    source, target = (Kavka(tmp_path / side, mirroring.SETTINGS) for side in ("source", "target"))
    warn, read_ledger, left = Report.warn, ledger_topic.read_ledger, ["a start"]

    def starts(report: Report, text: str) -> None:
        warn(report, text)
        if text == f"waits: the target has not {said} within 0.5 s" and left:
            left.pop()
            target.launch()

    def without_target(*given: Any) -> Any:
        if left:
            target.kill()
        return read_ledger(*given)

    monkeypatch.setattr(report_module, "SILENCE_MS", 500)
    monkeypatch.setattr(Report, "warn", starts)
    if moment == "read":
        monkeypatch.setattr(session_module, "read_ledger", without_target)
    else:
        count = 1 if moment == "init" else 2
        monkeypatch.setattr(Writer, "_patiently", at_call(count, target.kill))
    with running([source, target]):
        create(source, "t", *[10] * 10)
        assert run((source, target), "t") == 0
        assert not left, capsys.readouterr().err
        assert not differences((source, target), "t", 10)


@pytest.mark.parametrize(
    ("side", "settings", "said"),
    [
        ("target", "linger.ms=70000", "--target-config: linger.ms=70000 is too long: it is to be"),
        ("target", "linger.ms=60000.5", "takes no record: _INVALID_ARG: "),
        (
            "target",
            "delivery.timeout.ms=1",
            "--target-config: a record can't be written within 1 ms",
        ),
        ("source", "fetch.max.bytes=-4", "the consumer can't be made so: Configuration property"),
        ("target", "batch.size=-4", "the producer can't be made so: Configuration property"),
    ],
)
def test_settings_with_which_nothing_can_be_copied_end_it_in_a_line(
    pair: tuple[Kavka, Kavka],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    side: str,
    settings: str,
    said: str,
) -> None:
    topic = "set-" + re.sub(r"\W", "-", settings)
    create(pair[0], topic, 10)
    config = tmp_path / "a.properties"
    config.write_text(settings)
    assert run(pair, topic, f"--{side}-config", str(config)) == 1
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1


def test_times_are_judged_before_anything_is_created(
    pair: tuple[Kavka, Kavka], tmp_path: Path
) -> None:
    create_topic(pair[0].bootstrap, "judged", mirroring.PARTITIONS)
    config = tmp_path / "a.properties"
    config.write_text("linger.ms=60000")
    assert run(pair, "judged", "--target-config", str(config)) == 1
    found = AdminClient({"bootstrap.servers": pair[1].bootstrap}).list_topics(timeout=60).topics
    assert not {"judged", "kavka-mirror-judged"} & found.keys()


def test_a_property_that_no_client_knows_is_named_once(
    pair: tuple[Kavka, Kavka], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(pair[0].bootstrap, "unknown", mirroring.PARTITIONS)
    config = tmp_path / "a.properties"
    config.write_text("bogus.setting=1")
    given = ("--target-config", str(config), "--source-config", str(config))
    assert run(pair, "unknown", *given) == 0
    assert capsys.readouterr().err == "The property bogus.setting has no effect here.\n"

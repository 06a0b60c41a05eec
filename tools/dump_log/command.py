"""`kavka dump-log`: as Apache Kafka's kafka-dump-log, option by option, and for more files.

Each file is read on its own, so that what is damaged does not hide the rest. What a file holds goes
to standard output; what is wrong with it, to standard error.
"""

from __future__ import annotations

import json
import sys
from typing import Final

from kavka.tools.admin.command import LocalTool
from kavka.tools.admin.options import LINES, Given, Option
from kavka.tools.dump_log import own_files
from kavka.tools.dump_log.decoders import DECODERS, decoder
from kavka.tools.dump_log.indexes import dump_index, dump_time_index, dump_txn_index
from kavka.tools.dump_log.java_values import INT_MAX
from kavka.tools.dump_log.own_files import Detail
from kavka.tools.dump_log.paths import as_java, name_of
from kavka.tools.dump_log.producers import dump_producers
from kavka.tools.dump_log.segments import DumpOptions, dump_segment
from kavka.tools.dump_log.shown import Complaints, Dump

FILES: Final = "files"
PRINT: Final = "print-data-log"
DEEP: Final = "deep-iteration"
SKIP: Final = "skip-record-metadata"
CHECK: Final = "index-sanity-check"
VERIFY: Final = "verify-index-only"
MESSAGE_SIZE: Final = "max-message-size"
BYTES: Final = "max-bytes"
MESSAGE_SIZE_DEFAULT: Final = 5 * 1024 * 1024
DECODER_CLASSES: Final = "StringDecoder, LongDecoder, IntegerDecoder or DefaultDecoder (as hex)"

OPTIONS: Final = (
    LINES,
    Option(FILES, "Needed: the files to print, with commas between.", "FILE,.."),
    Option(PRINT, "Print keys and values of records; every decoder implies it."),
    Option(DEEP, "Print records, not only batches; --print-data-log implies it."),
    Option(SKIP, "Don't print offset, timestamp and so on of records, nor control records."),
    Option(BYTES, "How much to read of each segment at most.", "BYTES", is_number=True),
    Option(CHECK, "Only check the form of indexes, as a starting broker does."),
    Option(VERIFY, "Compare indexes with their segments, without printing them."),
    Option(MESSAGE_SIZE, "The size of the largest batch.", "BYTES", is_number=True),
    Option(
        "key-decoder-class",
        f"How to read keys: org.apache.kafka.tools.api.{DECODER_CLASSES}.",
        "CLASS",
        is_optional=True,
    ),
    Option("value-decoder-class", "The same for values.", "CLASS", is_optional=True),
    Option("offsets-decoder", "Read records as those of __consumer_offsets."),
    Option("transaction-log-decoder", "Read records as those of __transaction_state."),
    Option("share-group-state-decoder", "Read records as those of __share_group_state."),
    Option("cluster-metadata-decoder", "Read records as those of KRaft's __cluster_metadata."),
    Option("remote-log-metadata-decoder", "Read records as those of __remote_log_metadata."),
)


def check(given: Given) -> None:
    """Refuse what is not whole."""
    given.needs(FILES)
    given.text(FILES)


def run(given: Given) -> int:
    """Print the files one after another."""
    complaints = Complaints()
    is_json = given.text("output") == "json"
    for path in map(as_java, _files(given)):
        if not is_json:
            print(f"Dumping {path}")
        _print(path, _dump(path, given, complaints), is_json=is_json)
        _complain(complaints)
    for line in complaints.lines():
        print(line, file=sys.stderr)
    return 0


TOOL: Final = LocalTool(
    "dump-log",
    "Print what segments, indexes, snapshots and checkpoints hold.",
    OPTIONS,
    check,
    run,
)


def _files(given: Given) -> list[str]:
    """Those between commas; empty ones at the end don't count, unless nothing was given."""
    text = given.text(FILES) or ""
    whole = text.rstrip(",")
    return whole.split(",") if whole or not text else []


def _print(path: str, dump: Dump, *, is_json: bool) -> None:
    for text, entry in dump:
        if not is_json:
            sys.stdout.write(text)
        elif entry is not None:
            print(json.dumps({"file": path, **entry}, separators=(",", ":"), ensure_ascii=False))


def _complain(complaints: Complaints) -> None:
    for line in complaints.others:
        print(line, file=sys.stderr)
    complaints.others.clear()


def _dump(path: str, given: Given, complaints: Complaints) -> Dump:
    has_content = any(given.has(name) for name in (PRINT, *DECODERS))
    is_deep = has_content or given.has(DEEP)
    read = own_files.reader(path)
    if read is not None:
        return read(path, Detail(is_deep, has_content))
    name = name_of(path)
    match name[name.rfind(".") :] if "." in name else "":
        case ".log" | ".checkpoint":
            limit = given.number(BYTES)
            max_bytes = INT_MAX if limit is None else limit
            options = DumpOptions(is_deep, has_content, not given.has(SKIP), max_bytes)
            return dump_segment(path, options, decoder(given), complaints)
        case ".index":
            size = given.number(MESSAGE_SIZE)
            return dump_index(
                path,
                complaints,
                check_form=given.has(CHECK),
                quiet=given.has(VERIFY),
                max_message_size=MESSAGE_SIZE_DEFAULT if size is None else size,
            )
        case ".timeindex":
            form, quiet = given.has(CHECK), given.has(VERIFY)
            return dump_time_index(path, complaints, check_form=form, quiet=quiet)
        case ".snapshot":
            return dump_producers(path, complaints)
        case ".txnindex":
            return dump_txn_index(path)
    complaints.others.append(f"Ignoring unknown file {path}")
    return iter(())

"""The wire's hot calls: frames out of an arena, requests read, batches checked, answers written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from bench import frames
from kavka.wire import header
from kavka.wire.api import Api
from kavka.wire.apis import fetch, produce
from kavka.wire.codec.frames import encode_response
from kavka.wire.frame import ArenaPool, Framer
from kavka.wire.record_batches import check_batch

Named = tuple[str, Callable[[], object]]

BATCHES: Final = {
    "one record": frames.Batch(100, 1),
    "16 KiB": frames.Batch(1024, 15),
    "1 MB": frames.Batch(1024, 950),
}
TOPIC: Final = "topic"
REQUEST_BYTES_MAX: Final = 100 << 20
SIZE_FIELD_BYTES: Final = 4
PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 4


def calls() -> Iterator[Named]:
    """Everything to measure here."""
    for label, batch in BATCHES.items():
        encoded = batch.encode()
        request = frames.produce(TOPIC, 0, encoded)
        yield f"wire: frame a Produce of {label}, one copy included", _framing(request)
        yield f"wire: read a Produce of {label}", _reading(produce.API, PRODUCE_VERSION, request)
        yield f"wire: check a batch of {label}", partial(check_batch, memoryview(encoded))
    fetch_request = bytes(
        frames.FetchRequest(TOPIC, 0, max_wait_ms=500, partition_max_bytes=1 << 20).at(1)
    )
    yield "wire: read a Fetch", _reading(fetch.API, FETCH_VERSION, fetch_request)
    yield "wire: write a Produce answer", _produced
    yield "wire: write a Fetch answer of 1 MiB", partial(_fetched, memoryview(bytes(1 << 20)))


def _framing(request: bytes) -> Callable[[], None]:
    """One copy of the request stands for the kernel's."""
    framer = Framer(ArenaPool(), REQUEST_BYTES_MAX)
    source = memoryview(request)

    def frame() -> None:
        start, left = 0, len(source)
        whole = None
        while left:
            room = framer.get_buffer()
            got = min(left, len(room))
            room[:got] = source[start : start + got]
            framer.buffer_updated(got)
            start, left = start + got, left - got
            whole = framer.next_frame()
        if whole is None:
            raise RuntimeError("a whole request gave no frame")
        framer.release_or_stash()

    return frame


def _reading(api: Api, version: int, request: bytes) -> Callable[[], object]:
    frame = memoryview(request)[SIZE_FIELD_BYTES:]
    decode = api.decoder(version)

    def read() -> object:
        _, _, _, id_length = header.read_fixed(frame)
        _, position = header.read_client_id(frame, id_length)
        return decode(frame, position)

    return read


def _produced() -> object:
    partition = produce.PartitionResponse(0, 0, 12345, -1, 0)
    answer = produce.ProduceResponse([produce.TopicResponse(TOPIC, None, [partition])])
    return encode_response(produce.API, PRODUCE_VERSION, 1, answer)


def _fetched(records: memoryview) -> object:
    partition = fetch.PartitionResponse(0, 0, 12345, 12345, 0, records, None)
    answer = fetch.FetchResponse([fetch.TopicResponse(TOPIC, None, [partition])])
    return encode_response(fetch.API, FETCH_VERSION, 1, answer)

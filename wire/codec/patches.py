"""Patches of kafka-python's code generator: its decoders are not safe enough for a server.

The library was written for a client, which trusts its broker. Each function below replaces one
piece of its code generator, in our copy only (`kavka.wire.codec.private_copy`), and states what
was wrong. Each has a test in `tests/unit/wire/codec/test_patches.py`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

VARINT_BYTES_MAX: Final = 5
_NULLABLE: Final = ("string", "bytes")
_INT_MAX: Final = 0x7FFFFFFF
_STRING_BYTES_MAX: Final = 0x7FFF

ITEMS_MAX: Final = 20_000
"""Array items in one request, all levels together; a number counts a third.

Apache Kafka's only limit is the request's size. Kavka has this one because 100 MiB of empty names
would block the loop for a minute: an item takes 1 to 2 us to decode and up to 5 us with its
response, a number up to 2. Stock clients list topics and partitions, and a broker has fewer.
"""
ITEMS_FROM_CONTROLLER_MAX: Final = 300_000
"""The same for what controllers send. Apache Kafka's puts all partitions of the cluster into one
UpdateMetadata when a broker starts: three items each with three replicas, so 100,000 partitions."""

ITEMS_FROM_BROKER_MAX: Final = 3_000_000
"""The same for responses, which clients and tools read: Metadata tells of every partition of the
cluster. Apache Kafka's clients have no limit."""

_FROM_CONTROLLER: Final = ("LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest")
_NUMBERS_PER_ITEM: Final = 3

TAGS_MAX: Final = 1_000
"""Tagged fields in one section; stock clients send none or the few that are defined."""


def apply_patches(
    *,
    types: ModuleType,
    simple: ModuleType,
    array: ModuleType,
    struct: ModuleType,
    struct_array: ModuleType,
    codegen: ModuleType,
) -> None:
    """Install the patches; before any decoder or encoder has been compiled."""
    types.UnsignedVarInt32.emit_decode_from = classmethod(_emit_read_varint)
    read_varint = types.UnsignedVarInt32.emit_decode_from
    write_varint = types.UnsignedVarInt32.emit_encode_into
    types.String.emit_decode_from = _string_reader(read_varint)
    types.Bytes.emit_decode_from = classmethod(_bytes_reader(read_varint, copies=True))
    array.ArrayField._calculate_default = _fixed_default(array.ArrayField._calculate_default)
    simple.SimpleField.emit_decode_from = _null_checked(simple.SimpleField.emit_decode_from)
    array.ArrayField.emit_decode_from = _array_reader(read_varint)
    struct_array.StructArrayField.emit_decode_from = _array_reader(read_varint)
    struct.StructField.emit_decode_from = _counting(struct.StructField.emit_decode_from)
    _patch_tagged_sections(struct, codegen)
    _record_views["codec"] = _make_record_views(types.Bytes, read_varint, write_varint)


def _emit_read_varint(cls: Any, ctx: Any, var_name: str, indent: str) -> None:
    """The library's loop had no limit: 200 KB of 0xff cost 2 s, and the cost is quadratic.

    A value that does not fit into 31 bits is negative, as in Apache Kafka: null for a length.
    """
    byte, shift = ctx.next_var("b"), ctx.next_var("sh")
    ctx.globs["negative"] = _negative
    for line in (
        f"{var_name} = data[pos]",
        "pos += 1",
        f"if {var_name} > 127:",
        f"    {var_name} &= 127",
        f"    {shift} = 7",
        "    while True:",
        f"        {byte} = data[pos]",
        "        pos += 1",
        f"        {var_name} |= ({byte} & 127) << {shift}",
        f"        if {byte} < 128: break",
        f"        {shift} += 7",
        f"        if {shift} > {7 * (VARINT_BYTES_MAX - 1)}: raise ValueError('varint too long')",
        f"    if {var_name} > {_INT_MAX}: {var_name} = negative({var_name})",
    ):
        ctx.emit(indent, line)


def _negative(value: int) -> int:
    """The lowest 32 bits as a signed number; except -2**31, which wraps to 2**31-1 when the length
    (one less) is computed, and so stays positive."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value > _INT_MAX + 1 else value


def _emit_length(
    ctx: Any, length: str, indent: str, read_varint: Any, compact: bool, short: bool
) -> None:
    """Read the length in front of a string (2 bytes when `short`) or of bytes (4), or compact."""
    if compact:
        read_varint(ctx, length, indent)
        ctx.emit(indent, f"{length} -= 1")
    else:
        ctx.emit(indent, f"{length} = unpack_from('>{'h' if short else 'i'}', data, pos)[0]")
        ctx.emit(indent, f"pos += {2 if short else 4}")


def _emit_slice(ctx: Any, var_name: str, indent: str, length: str, made: str) -> None:
    """Read `length` bytes. Python shortens a slice past the end; the library did not check."""
    for line in (
        f"if {length} < 0:",
        f"    {var_name} = None",
        "else:",
        f"    if pos + {length} > len(data): raise ValueError('field past the end')",
        f"    {var_name} = {made.format(f'data[pos:pos+{length}]')}",
        f"    pos += {length}",
    ):
        ctx.emit(indent, line)


def _string_reader(read_varint: Any) -> Any:
    """Invalid UTF-8 decodes to replacement characters, as in Apache Kafka, and is then rejected
    or unknown as a name; the library raised an error. And it accepted compact strings of any
    length, where Apache Kafka, whose limit is 32767 bytes, closes the connection.
    """

    def emit(self: Any, ctx: Any, var_name: str, indent: str, compact: bool = False) -> None:
        length = ctx.next_var("ln")
        _emit_length(ctx, length, indent, read_varint, compact, short=True)
        if compact:
            statement = "raise ValueError('string too long')"
            ctx.emit(indent, f"if {length} > {_STRING_BYTES_MAX}: {statement}")
        _emit_slice(ctx, var_name, indent, length, "str({}, 'utf-8', 'replace')")

    return emit


def _bytes_reader(read_varint: Any, *, copies: bool) -> Any:
    made = "bytes({})" if copies else "{}"

    def emit(cls: Any, ctx: Any, var_name: str, indent: str, compact: bool = False) -> None:
        length = ctx.next_var("ln")
        _emit_length(ctx, length, indent, read_varint, compact, short=False)
        _emit_slice(ctx, var_name, indent, length, made)

    return emit


def _fixed_default(original: Any) -> Any:
    """The default of an array that a version lacks was one list shared by all messages, so what
    a handler appended to one request appeared in the next. It is a tuple now.
    """

    def calculate(self: Any, default: Any) -> Any:
        made = original(self, default)
        return () if made == [] else made

    return calculate


def _null_checked(original: Any) -> Any:
    """The library accepts null in non-nullable fields; Apache Kafka closes the connection."""

    def emit(
        self: Any,
        ctx: Any,
        var_name: str,
        indent: str,
        version: int,
        compact: bool = False,
        tagged: Any = False,
    ) -> None:
        original(self, ctx, var_name, indent, version=version, compact=compact, tagged=tagged)
        nullable = self.nullable_for_version_q(version)
        if self.type_str in _NULLABLE and not nullable:
            ctx.emit(indent, f"if {var_name} is None: raise ValueError('{self.name} is null')")

    return emit


def _counting(original: Any) -> Any:
    """Each decoder counts down the items it may still create (`_array_reader`). And any negative
    byte before a nullable struct means null, as in Apache Kafka; the library knew only -1.
    """

    def emit(self: Any, ctx: Any, var_name: str, indent: str, **how: Any) -> None:
        if var_name == "obj":  # the whole message
            ctx.emit(indent, f"left = {_items_max(self._name)}")
        first = len(ctx.lines)
        original(self, ctx, var_name, indent, **how)
        ctx.lines[first] = ctx.lines[first].replace("if data[pos] == 0xff:", "if data[pos] > 127:")

    return emit


def _items_max(name: str) -> int:
    if name.endswith("Response"):
        return ITEMS_FROM_BROKER_MAX
    return ITEMS_FROM_CONTROLLER_MAX if name in _FROM_CONTROLLER else ITEMS_MAX


def _array_reader(read_varint: Any) -> Any:
    """An array that is longer than the rest of the frame, or has too many items, is rejected
    before its items are decoded.
    """

    def emit(
        self: Any,
        ctx: Any,
        var_name: str,
        indent: str,
        version: int,
        compact: bool = False,
        tagged: Any = False,
    ) -> None:
        count, item = ctx.next_var("n"), ctx.next_var("item")
        least = _least_bytes(self.array_of, version, compact, tagged)
        items = f"{count} // {_NUMBERS_PER_ITEM}" if self.array_of.is_batchable() else count
        _emit_length(ctx, count, indent, read_varint, compact, short=False)
        ctx.emit(indent, f"if {count} < 0:")
        if self.nullable_for_version_q(version):
            ctx.emit(indent, f"    {var_name} = None")
        else:
            ctx.emit(indent, f"    raise ValueError('{self.name} is null')")
        ctx.emit(indent, f"elif {count} * {least} > len(data) - pos:")
        ctx.emit(indent, f"    raise ValueError('{self.name} is longer than the request')")
        ctx.emit(indent, f"elif {items} > left:")
        ctx.emit(indent, "    raise ValueError('too many items')")
        ctx.emit(indent, "else:")
        ctx.emit(indent, f"    left -= {items}")
        if self.array_of.is_batchable():
            numbers = f"unpack_from(f'>{{{count}}}{self.array_of._type.fmt}', data, pos)"
            ctx.emit(indent, f"    {var_name} = list({numbers})")
            ctx.emit(indent, f"    pos += {count} * {least}")
            return
        ctx.emit(indent, f"    {var_name} = []")
        ctx.emit(indent, f"    for _ in range({count}):")
        inner = indent + "        "
        self.array_of.emit_decode_from(
            ctx, item, inner, version=version, compact=compact, tagged=tagged
        )
        if self.array_of.type_str in _NULLABLE:  # the array may be null, its items may not
            ctx.emit(inner, f"if {item} is None: raise ValueError('null in {self.name}')")
        ctx.emit(inner, f"{var_name}.append({item})")

    return emit


def _least_bytes(field: Any, version: int, compact: bool, tagged: Any) -> int:
    """The minimum size of an array's item in bytes."""
    if field.is_struct():
        parts = [
            _least_bytes(inner, version, compact, tagged)
            for inner in field.untagged_fields(version)
        ]
        return sum(parts) + (tagged is not False)
    if field.is_array() or field.is_struct_array():
        return 1 if compact else 4
    size = field._type.size
    if isinstance(size, int):
        return size
    return 1 if compact else 2 if field.type_str == "string" else 4


def _patch_tagged_sections(struct: ModuleType, codegen: ModuleType) -> None:
    """The library copied the rest of the frame for each struct with tags, which is quadratic. It
    decoded known tags with other code, without the null checks and item limits. And it skipped
    tags of other versions, for which Apache Kafka closes the connection.
    """

    def emit(self: Any, ctx: Any, var_name: str, indent: str, version: int) -> None:
        known = ctx.next_var("tf")
        ctx.globs[known] = {
            field.tag: (
                field.name,
                _tag_reader(codegen.CodegenContext(), field, version)
                if field.for_version_q(version)
                else _refuse_tag,
            )
            for field in self._fields
            if field.tag is not None
        }
        ctx.globs["read_tags"] = read_tags
        ctx.emit(indent, f"pos, left = read_tags({var_name}, data, pos, {known}, left)")

    struct.StructField._emit_tagged_decode = emit


def _refuse_tag(data: memoryview, pos: int, left: int) -> Any:
    raise ValueError("a tag of another version")


def _tag_reader(ctx: Any, field: Any, version: int) -> Any:
    """A function that reads one tagged field: (data, pos, left) -> (value, pos, left)."""
    ctx.lines.append("def _read_tag(data, pos, left):")
    field.emit_decode_from(ctx, "value", "    ", version=version, compact=True, tagged=True)
    ctx.emit("    ", "return value, pos, left")
    exec(compile(ctx.source(), f"<codegen_tag:{field.name}_v{version}>", "exec"), ctx.globs)
    return ctx.globs["_read_tag"]


def _read_varint(data: memoryview, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
        shift += 7
        if shift > 7 * (VARINT_BYTES_MAX - 1):
            raise ValueError("varint too long")


def read_tags(
    target: Any, data: memoryview, pos: int, known: dict[int, Any], left: int = ITEMS_MAX
) -> tuple[int, int]:
    """Decode a tagged section (KIP-482) into `target`; unknown tags are skipped. Returns the end
    position and how many items the message may still have; each tag counts as one.

    Unknown tags within a tagged struct, which the library rejected, are skipped too. The order of
    tags is not checked; nor does Apache Kafka's reader check it.
    """
    count, pos = _read_varint(data, pos)
    if count > _INT_MAX:
        count = max(0, _negative(count))
    if count > TAGS_MAX:
        raise ValueError(f"more than {TAGS_MAX} tags")
    if count > left:
        raise ValueError("too many items")
    left -= count
    for _ in range(count):
        tag, pos = _read_varint(data, pos)
        size, pos = _read_varint(data, pos)
        end = pos + size
        if end > len(data):
            raise ValueError("tagged field past the end")
        found = known.get(tag)
        if found is not None:
            name, read = found
            value, _, left = read(data[:end], pos, left)
            setattr(target, name, value)
        pos = end
    return pos, left


_record_views: Final[dict[str, Any]] = {}


def _make_record_views(bytes_codec: Any, read_varint: Any, write_varint: Any) -> Any:
    """A codec for `records` fields that copies nothing.

    Decoding gives a view of the frame. Encoding writes only the length and adds the payload and
    its position to `out.parts`, so that the caller can send it without a copy.
    """

    def emit_encode(cls: Any, ctx: Any, value: str, indent: str, compact: bool = False) -> None:
        records, size, body = ctx.next_var("rec"), ctx.next_var("n"), indent + "    "
        ctx.emit(indent, f"{records} = {value}")
        ctx.emit(indent, f"{size} = -1 if {records} is None else len({records})")
        if compact:
            ctx.emit(indent, f"{size} += 1")
            written = ctx.next_var("w")
            ctx.emit(indent, f"{written} = {size}")
            write_varint(ctx, written, indent)
            ctx.emit(indent, f"if {size} > 1:")
        else:
            ctx.emit_reserve(indent, 4)
            ctx.emit(indent, f"pack_into('>i', buf, pos, {size})")
            ctx.emit(indent, "pos += 4")
            ctx.emit(indent, f"if {size} > 0:")
        ctx.emit(body, f"out.parts.append((pos, {records}))")

    return type(
        "RecordViews",
        (bytes_codec,),
        {
            "emit_encode_into": classmethod(emit_encode),
            "emit_decode_from": classmethod(_bytes_reader(read_varint, copies=False)),
        },
    )


def use_record_views(struct: Any) -> None:
    """Give every `records` field below `struct` the codec that copies nothing."""
    for field in struct._fields or ():
        if getattr(field, "_type_str", None) == "records":
            field._type = _record_views["codec"]
        inner = getattr(field, "array_of", None) or field
        if getattr(inner, "_fields", None):
            use_record_views(inner)

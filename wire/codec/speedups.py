"""Speed-ups of kafka-python's generated code, in our private copy only.

The encoded bytes are the same: `tests/unit/wire` compares them with the library's own.
"""

from __future__ import annotations

import re
import struct
from types import ModuleType
from typing import Any, Final


def apply_speedups(
    *, types: ModuleType, struct_field: ModuleType, struct_array: ModuleType, codegen: ModuleType
) -> None:
    """Install the speed-ups; before any decoder or encoder has been compiled."""
    write_varint = types.UnsignedVarInt32.emit_encode_into
    struct_array.StructArrayField.emit_encode_into = _struct_array_writer(write_varint)
    struct_field.StructField.emit_encode_into = _write_struct
    codegen.CodegenContext.source = _with_compiled_structs(codegen.CodegenContext.source)


def _struct_array_writer(write_varint: Any) -> Any:
    """The library generates each array's code twice, for objects and for tuples, at each level:
    17 ms to compile a Metadata encoder. Kavka passes objects only.
    """

    def emit(
        self: Any,
        ctx: Any,
        val_expr: str,
        indent: str,
        version: int,
        compact: bool = False,
        tagged: Any = False,
    ) -> None:
        count, item = ctx.next_var("n"), ctx.next_var("item")
        if compact:
            ctx.emit(indent, f"{count} = 0 if {val_expr} is None else len({val_expr}) + 1")
            write_varint(ctx, count, indent)
        else:
            ctx.emit_reserve(indent, 4)
            ctx.emit(indent, f"{count} = -1 if {val_expr} is None else len({val_expr})")
            ctx.emit(indent, f"pack_into('>i', buf, pos, {count})")
            ctx.emit(indent, "pos += 4")
        ctx.emit(indent, f"for {item} in {val_expr} or ():")
        self.array_of.emit_encode_into(
            ctx, item, indent + "    ", version=version, compact=compact, tagged=tagged
        )

    return emit


def _write_struct(
    self: Any,
    ctx: Any,
    item_expr: str,
    indent: str,
    version: int,
    compact: bool = False,
    tagged: Any = False,
) -> None:
    """Pack adjacent numbers with one call, as the library's decoders unpack them."""
    if self.nullable_for_version_q(version) and item_expr != "item":
        ctx.emit_reserve(indent, 1)
        ctx.emit(indent, f"buf[pos] = 0xff if {item_expr} is None else 1")
        ctx.emit(indent, "pos += 1")
        ctx.emit(indent, f"if {item_expr} is not None:")
        indent += "    "
    run: list[Any] = []
    for field in self.untagged_fields(version):
        if field.is_batchable():
            run.append(field)
            continue
        _write_run(ctx, item_expr, indent, run)
        run = []
        field.emit_encode_into(
            ctx,
            f"{item_expr}.{field.name}",
            indent,
            version=version,
            compact=compact,
            tagged=tagged,
        )
    _write_run(ctx, item_expr, indent, run)
    if tagged:
        _write_tags(self.tagged_fields(version), ctx, item_expr, indent, version)
    elif tagged is None:
        _write_zero(ctx, indent)


def _write_run(ctx: Any, item_expr: str, indent: str, run: list[Any]) -> None:
    if not run:
        return
    layout = ">" + "".join(field._type.fmt for field in run)
    size = struct.calcsize(layout)
    values = ", ".join(f"{item_expr}.{field.name}" for field in run)
    ctx.emit_reserve(indent, size)
    ctx.emit(indent, f"pack_into('{layout}', buf, pos, {values})")
    ctx.emit(indent, f"pos += {size}")


def _write_tags(known: Any, ctx: Any, item_expr: str, indent: str, version: int) -> None:
    """Write the zero byte of an empty tagged section inline.

    The library calls a method for each struct, which looks up each tagged field twice; that was
    half the cost of a Metadata response.
    """
    if not known._fields:
        _write_zero(ctx, indent)
        return
    name = ctx.next_var("tf")
    ctx.globs[name] = known
    ctx.globs["present_tags"] = present_tags
    absent = " and ".join(_absent(field, item_expr) for field in known._fields)
    ctx.emit(indent, f"if {absent}:")
    _write_zero(ctx, indent + "    ")
    for field in known._fields:
        if field.is_struct():
            _write_only_tag(field, known, ctx, item_expr, indent, version)
    ctx.emit(indent, "else:")
    for line in (
        "out.pos = pos",
        f"{name}.encode_into(present_tags({item_expr}, {name}._fields), out, version={version})",
        "pos = out.pos",
        "buf = out.buf",  # the buffer may have grown
        "_cap = len(buf)",
    ):
        ctx.emit(indent + "    ", line)


def _write_only_tag(
    field: Any, known: Any, ctx: Any, item_expr: str, indent: str, version: int
) -> None:
    """Write a tagged struct of numbers inline where it is the only tagged field that is present, as
    the replica's state in each Fetch of a follower (KIP-903)."""
    numbers = field.untagged_fields(version)
    if field.tagged_fields(version)._fields or not all(number.is_batchable() for number in numbers):
        return
    value = f"{item_expr}.{field.name}"
    layout = "".join(number._type.fmt for number in numbers)
    size = struct.calcsize(f">{layout}B")
    assert field.tag < 128 and size < 128, "varints of one byte"
    absent = [_absent(other, item_expr) for other in known._fields if other is not field]
    values = [f"{value}.{number.name}" for number in numbers]
    unlike = [f"{name} != {number.default!r}" for name, number in zip(values, numbers, strict=True)]
    ctx.emit(indent, f"elif {' and '.join([*absent, '(' + ' or '.join(unlike) + ')'])}:")
    indent += "    "
    ctx.emit_reserve(indent, 3 + size)
    # how many tags, the tag, its size; behind its values the number of tags of its own
    head = f"1, {field.tag}, {size}"
    ctx.emit(indent, f"pack_into('>BBB{layout}B', buf, pos, {head}, {', '.join(values)}, 0)")
    ctx.emit(indent, f"pos += {3 + size}")


def _write_zero(ctx: Any, indent: str) -> None:
    ctx.emit_reserve(indent, 1)
    ctx.emit(indent, "buf[pos] = 0")
    ctx.emit(indent, "pos += 1")


def _absent(field: Any, item_expr: str) -> str:
    """An expression: this tagged field has its default value and is omitted (KIP-482)."""
    value = f"{item_expr}.{field.name}"
    if field.is_struct():
        return f"{value} is None"
    return f"not {value}" if field.default == () else f"{value} == {field.default!r}"


def present_tags(item: Any, fields: list[Any]) -> dict[str, Any]:
    """The tagged fields of `item` to encode, in the form that the library expects.

    A struct whose fields all have their defaults is omitted, as in Apache Kafka; the library
    would encode it.
    """
    values = ((field, getattr(item, field.name)) for field in fields)
    return {field.name: value for field, value in values if not _is_default(field, value)}


def _is_default(field: Any, value: Any) -> bool:
    if value is None or not field.is_struct():
        return bool(value == field.default or (value == [] and field.default == ()))
    return all(_is_default(inner, getattr(value, inner.name)) for inner in field._fields)


_STRUCT_CALL: Final = re.compile(r"""\b(unpack_from|pack_into)\((['"])(>[0-9a-zA-Z?]+)\2, """)


_READER_HEAD: Final = "def _decode(data, pos):\n"


def _with_compiled_structs(original: Any) -> Any:
    """Use compiled `Struct` methods, since `struct.pack_into(format, ...)` looks its format up in
    a cache each time. And call `len(data)` once per frame.
    """

    def source(self: Any) -> str:
        text: str = original(self)
        if text.startswith(_READER_HEAD):
            body = text.removeprefix(_READER_HEAD).replace("len(data)", "size")
            text = f"{_READER_HEAD}    size = len(data)\n{body}"

        def ready(call: re.Match[str]) -> str:
            function, layout = call[1], call[3]
            name = f"{function}_{layout[1:].replace('?', 'bool')}"
            self.globs[name] = getattr(struct.Struct(layout), function)
            return f"{name}("

        return _STRUCT_CALL.sub(ready, text)

    return source

"""How pydantic reads and writes messages and their parts. Only pydantic imports this: it is not a dependency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pydantic_core import core_schema as schema


def message_schema(kind: type[Any], read: Callable[[dict[str, Any]], Any]) -> schema.CoreSchema:
    """Accepts a `Message`, or a dict that `read` turns into one; writes what `to_dict` returns."""
    return schema.json_or_python_schema(
        schema.no_info_after_validator_function(read, schema.dict_schema(schema.str_schema())),
        schema.no_info_plain_validator_function(lambda given: given if isinstance(given, kind) else read(given)),
        serialization=schema.plain_serializer_function_ser_schema(kind.to_dict, return_schema=_written()),
    )


def part_schema(kind: type[Any], fields: schema.CoreSchema) -> schema.CoreSchema:
    """The schema of a part's fields, written as the block that `to_dict` returns, which names its type."""
    block = schema.dict_schema(schema.str_schema())
    written = schema.plain_serializer_function_ser_schema(kind.to_dict, return_schema=block)
    return cast(schema.CoreSchema, {**fields, "serialization": written})


def _written() -> schema.CoreSchema:
    optional_text = schema.nullable_schema(schema.str_schema())
    blocks = schema.list_schema(schema.dict_schema(schema.str_schema()))
    fields = {
        "id": schema.str_schema(),
        "role": schema.str_schema(),
        "content": schema.union_schema([schema.str_schema(), blocks]),
        "author": optional_text,
        "metadata": schema.dict_schema(schema.str_schema()),
        "created_at": schema.str_schema(),
        "parent_id": optional_text,
        "tokens": schema.int_schema(),
    }
    return schema.typed_dict_schema({name: schema.typed_dict_field(field) for name, field in fields.items()})

"""The JSON Schema that pydantic makes of a function's arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError

from gaia_bridge.protocol.json_types import JSON

__all__ = ["SCHEMA_ERRORS", "argument_schema"]

SCHEMA_ERRORS: Final = (PydanticUserError, NameError)
"""What is raised where there is none. `NameError`: an annotation kept as text (PEP 563) that names nothing at the
function's module level."""


def argument_schema(function: Callable[..., Any]) -> JSON:
    """Derive an object schema.

    Args:
        function: Called with named arguments only.

    Raises:
        PydanticUserError: One of its types has no JSON Schema.
        NameError: One of its types is not there.
    """
    # A function is as good as a type to pydantic, which its annotations do not say.
    return TypeAdapter[Any](cast(Any, function)).json_schema(schema_generator=_ArgumentSchema)


class _ArgumentSchema(GenerateJsonSchema):
    """Schemas without the noise that a model pays for: no titles repeating names, no defaults that are not JSON."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as problem:
            raise PydanticSerializationError(str(problem)) from problem
        return encoded

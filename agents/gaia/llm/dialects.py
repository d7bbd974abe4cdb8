"""Tools as each provider of language models wants them described: which JSON Schema it accepts, and in which envelope.

A provider that is sent a keyword which it does not know refuses the whole request, with all its tools. So the tables
below list what is let through, and everything else is left out: the tool's server judges the arguments anyway. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from gaia.llm.openapi_schema import as_openapi
from gaia.llm.schema_walk import Rule, Walk, type_names
from gaia.llm.strict import strict_form
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["DIALECTS", "Dialect", "converted", "declaration", "normalised", "provider_named"]


class Dialect(Struct, frozen=True):
    """The JSON Schema that a provider accepts below the top of a tool's parameters."""

    keywords: frozenset[str]
    """Those that are let through."""
    root_keywords: frozenset[str] = frozenset({"type", "properties", "required", "additionalProperties"})
    """Those that are let through at the top, where only an object may be described."""
    formats: Mapping[str, frozenset[str]] | None = None
    """For each type, the values of `format` that are let through; all if `None`."""
    references: bool = True
    """Whether `$ref` and `$defs` are understood."""
    tuples: bool = False
    """Whether `prefixItems` is understood."""
    nullable: bool = False
    """Whether null is said with `nullable: true`, each schema having one type, or `anyOf` and nothing else."""
    union_types: bool = False
    """Whether a schema with `anyOf` also names the types, for those who do not look into that."""
    lookaround: bool = True
    """Whether a `pattern` may look ahead or behind."""
    names: re.Pattern[str] | None = None
    """The pattern that names of properties must match."""
    strict: bool = False
    """Whether a closed schema with nothing optional makes the provider keep to it exactly."""


_VALUES: Final = frozenset({"type", "description", "enum", "default"})
_NUMBERS: Final = frozenset({"minimum", "maximum", "multipleOf"})
_TEXTS: Final = frozenset({"pattern", "format", "minLength", "maxLength"})
_ARRAYS: Final = frozenset({"items", "minItems", "maxItems"})
_OBJECTS: Final = frozenset({"properties", "required", "additionalProperties"})

OPENAI: Final = Dialect(
    # developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas": these and `$ref`; no allOf, not,
    # if, dependent*. Also refused: oneOf (openai-node #1997), uniqueItems, patternProperties, min/maxProperties (same).
    # exclusiveMinimum and exclusiveMaximum are in that list by now; the specification drops them.
    keywords=_VALUES | _NUMBERS | _TEXTS | _ARRAYS | _OBJECTS | {"anyOf", "const"},
    # The specification's five; duration, hostname, ipv4 and ipv6 are accepted too, any other, such as
    # `uri`, is an error 400 (BuilderIO/agent-native #3085).
    formats={"string": frozenset({"date-time", "date", "time", "email", "uuid"})},
    # "regex lookaround is not supported", strict or not (vercel/ai #21037, anomalyco/opencode #32073).
    lookaround=False,
    strict=True,
)

OLLAMA: Final = Dialect(
    # github.com/ollama/ollama, api/types.go, ToolFunction and ToolProperty: what a struct there has no field for is
    # lost in silence (issue 11444), a reference therefore leaves nothing. Lists of types: since pull request 9434;
    # anyOf: 11705, before which a property without a type broke templates.
    keywords=frozenset({"type", "description", "enum", "items", "properties", "required", "anyOf"}),
    root_keywords=frozenset({"type", "properties", "required"}),
    references=False,
    union_types=True,
)

ANTHROPIC: Final = Dialect(
    # platform.claude.com/docs, "Tool use": `input_schema` is JSON Schema 2020-12, and "does not support oneOf, allOf,
    # or anyOf at the top level" (error 400). Refused in practice: patternProperties (openclaw/openclaw #29416).
    keywords=_VALUES
    | _NUMBERS
    | _TEXTS
    | _ARRAYS
    | _OBJECTS
    | {"anyOf", "const", "exclusiveMinimum", "exclusiveMaximum", "prefixItems", "uniqueItems"}
    | {"minProperties", "maxProperties"},
    tuples=True,
    # "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'" (error 400; beautyfree/appstore-connect-mcp #2).
    names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)

GEMINI: Final = Dialect(
    # ai.google.dev/api/caching#Schema, "a select subset of an OpenAPI 3.0 schema object"; whatever is not in it is
    # "Unknown name: Cannot find field" (error 400): const, exclusiveMinimum, multipleOf, additionalProperties, $ref.
    # `title` and `default` are in it today and were not (QuantumNous/new-api #766).
    keywords=frozenset({"type", "description", "enum", "format", "minimum", "maximum", "minLength", "maxLength"})
    | {"pattern", "items", "minItems", "maxItems", "properties", "required", "anyOf", "nullable"},
    root_keywords=frozenset({"type", "properties", "required"}),
    # Same page; "only 'enum' and 'date-time' are supported for STRING type" (google-gemini/gemini-cli #3178).
    formats={
        "string": frozenset({"date-time"}),
        "number": frozenset({"float", "double"}),
        "integer": frozenset({"int32", "int64"}),
    },
    references=False,
    nullable=True,
    lookaround=False,
)

DIALECTS: Final[Mapping[str, Dialect]] = {
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "ollama": OLLAMA,
    "openai": OPENAI,
}

_ALIASES: Final = {
    "claude": "anthropic",
    "google": "gemini",
    **dict.fromkeys(("lemonade", "llamacpp", "lmstudio", "vllm"), "ollama"),  # they want tools described alike
}

_LOOKAROUND: Final = re.compile(r"(?<!\\)(?:\\\\)*\(\?<?[=!]")


def provider_named(name: str) -> str:
    """Return the key of `DIALECTS` for the name of a provider.

    Args:
        name: What somebody set, such as `OpenAI` or `claude`.

    Raises:
        ValueError: It is none that we know.
    """
    plain = name.strip().lower()
    provider = _ALIASES.get(plain, plain)
    if provider not in DIALECTS:
        raise ValueError(
            f"the provider is {name!r}; expected {', '.join(DIALECTS)}, or lemonade, llamacpp, lmstudio or vllm, which "
            "are described tools as ollama is"
        )
    return provider


def converted(schema: JSON, provider: str, *, close: bool = True, rule: Rule | None = None) -> JSON:
    """Return a tool's parameters as a provider accepts them.

    For `openai`, a schema that can be strict is closed: `additionalProperties` is `False` in all objects, at the top
    too. That is so if every property of every object is required and has no default, and no object is open.

    Args:
        schema: A JSON Schema, of an object; never changed.
        provider: A key of `DIALECTS`.
        close: Whether objects that do not say whether they are open may be closed.
        rule: What is done to each schema below the top instead of `normalised`: given the schema, with its parts as
            they came, returns what is let through.

    Returns:
        A new schema with `type` and `properties`.
    """
    dialect = DIALECTS[provider]
    rule = partial(normalised, dialect=dialect) if rule is None else rule
    root_rule = partial(_root, dialect=dialect)
    walk = Walk(schema, references=dialect.references, tuples=dialect.tuples, rule=rule, root_rule=root_rule)
    result = walk.result()
    _finish(result, dialect, top=True)
    if not dialect.strict:
        return result
    closed = strict_form(result) if close or result.get("additionalProperties") is False else None
    if closed is not None:
        return closed
    if result.get("additionalProperties") is False:
        del result["additionalProperties"]
    return result


def normalised(schema: JSON, dialect: Dialect) -> JSON:
    """Reduce one schema to what a provider accepts; its parts stay as they are.

    Args:
        schema: One schema, without references and `allOf`; never changed.
        dialect: The provider's.
    """
    kept = {key: value for key, value in schema.items() if key in dialect.keywords}
    if "const" in schema and "const" not in dialect.keywords:
        kept["enum"] = [schema["const"]]
    if dialect.formats is not None and "format" in kept and not _is_known_format(kept, dialect.formats):
        del kept["format"]
    if kept.get("minLength") == 1:
        del kept["minLength"]
    if not dialect.lookaround and _LOOKAROUND.search(str(kept.get("pattern", ""))):
        del kept["pattern"]
    _open_patterns(schema, kept, dialect.keywords)
    if "array" in type_names(kept) and "items" not in kept and "prefixItems" not in kept:
        kept["items"] = {}  # "array schema missing items" (PrefectHQ/fastmcp #2464), "items: missing field" (Gemini)
    return kept


def declaration(provider: str, name: str, description: str, parameters: JSON) -> JSON:
    """Return a tool's declaration in a provider's format.

    Args:
        provider: A key of `DIALECTS`.
        name: What the model calls it.
        description: What it does.
        parameters: As `converted` returns them. For `openai`, `additionalProperties` being `False` makes it strict.
    """
    if provider == "anthropic":
        return {"name": name, "description": description, "input_schema": parameters}
    if provider == "gemini":
        # "properties: should be non-empty for OBJECT type" (agno-agi/agno #2112); absent parameters are none.
        described = {"parameters": parameters} if parameters.get("properties") else {}
        return {"name": name, "description": description, **described}
    facts = {"name": name, "description": description, "parameters": parameters}
    if provider == "ollama":
        return {"type": "function", "function": facts}
    strict = {"strict": True} if parameters.get("additionalProperties") is False else {}
    return {"type": "function", **facts, **strict}


def _root(schema: JSON, dialect: Dialect) -> JSON:
    root = {key: value for key, value in schema.items() if key in dialect.root_keywords}
    _open_patterns(schema, root, dialect.root_keywords)
    return root


def _open_patterns(schema: JSON, kept: JSON, keywords: frozenset[str]) -> None:
    """Leave room for the properties that are known by a pattern only, which cannot be written."""
    if "patternProperties" in schema and "additionalProperties" in keywords:
        if not is_object(kept.get("additionalProperties")):
            kept["additionalProperties"] = True


def _is_known_format(schema: JSON, formats: Mapping[str, frozenset[str]]) -> bool:
    names = type_names(schema) or ["string"]
    return any(isinstance(schema["format"], str) and schema["format"] in formats.get(name, ()) for name in names)


def _finish(schema: JSON, dialect: Dialect, *, top: bool = False) -> None:
    """Put the last touches to a converted schema, its parts first."""
    for part in _parts(schema):
        _finish(part, dialect)
    _settle_names(schema, dialect.names if top else None)
    if dialect.union_types and "anyOf" in schema and "type" not in schema:
        names = list(dict.fromkeys(name for option in schema["anyOf"] for name in type_names(option)))
        if names and all(type_names(option) for option in schema["anyOf"]):
            schema["type"] = names[0] if len(names) == 1 else names
    if dialect.nullable:
        as_openapi(schema, top=top)


def _settle_names(schema: JSON, pattern: re.Pattern[str] | None) -> None:
    """Leave out properties whose names would be refused, with the whole request, and what is required and not there."""
    if is_object(properties := schema.get("properties")):
        for name in [name for name in properties if pattern is not None and pattern.fullmatch(name) is None]:
            del properties[name]
        schema["required"] = list(dict.fromkeys(name for name in schema.get("required", ()) if name in properties))
    if not schema.get("required") or "properties" not in schema:
        schema.pop("required", None)


def _parts(schema: JSON) -> list[JSON]:
    """Return the schemas directly inside of a converted one."""
    named = [schema[key] for key in ("properties", "$defs") if is_object(schema.get(key))]
    listed = [schema[key] for key in ("anyOf", "prefixItems") if is_array(schema.get(key))]
    parts = [part for parts in named for part in parts.values()] + [part for parts in listed for part in parts]
    parts += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [part for part in parts if is_object(part)]

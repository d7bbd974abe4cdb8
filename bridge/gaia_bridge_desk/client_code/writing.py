"""Names, literals, docstrings and types of Python, made from arbitrary texts and schemas.

Types are not made with datamodel-code-generator: it brings a formatter, a template engine and six further packages,
fetches references from files and the network, and makes one module of one schema, while a server has many, from
untrusted authors.
"""

from __future__ import annotations

import builtins
import keyword
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, at_pointer, is_array, is_object

_WIDTH = 110
"""Characters of a line of a docstring, without its indentation."""

_LONGEST_NAME = 60

_BUILTINS = frozenset(dir(builtins))


class Names:
    """Names of one scope, each given once.

    Args:
        reserved: Names that are never given.
        builtins_too: Whether the names of built-in functions and types are never given either.
    """

    def __init__(self, reserved: Iterable[str] = (), *, builtins_too: bool = True) -> None:
        self._reserved = frozenset((*reserved, *(_BUILTINS if builtins_too else ())))
        self._taken = set(self._reserved)
        self._numbers: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """Return a name like the wanted one that is not taken yet."""
        name = f"{wanted}_" if keyword.iskeyword(wanted) or wanted in self._reserved else wanted
        base = name.rstrip("_")
        number = self._numbers.get(base, 2)  # lower ones are taken; to try them all again takes quadratic time
        while name in self._taken:
            name = f"{base}_{number}"
            number += 1
        self._numbers[base] = number
        self._taken.add(name)
        return name


def _words(text: str, otherwise: str) -> list[str]:
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text[: _LONGEST_NAME * 4])
    words = [word for word in re.split(r"[^A-Za-z0-9]+", split) if word]
    return [otherwise, *words] if not words or words[0][0].isdigit() else words


def snake_case(text: str, otherwise: str) -> str:
    """Return a name for a function; it begins with `otherwise` where the text does not begin with a letter."""
    return "_".join(_words(text, otherwise)).lower()[:_LONGEST_NAME].rstrip("_")


def pascal_case(text: str, otherwise: str) -> str:
    """Return a name for a class; it begins with `otherwise` where the text does not begin with a letter."""
    return "".join(word[0].upper() + word[1:] for word in _words(text, otherwise))[:_LONGEST_NAME]


def parameter_name(text: str) -> str:
    """Return a name for a parameter: the text itself if it can be one."""
    name = text.strip("_")[:_LONGEST_NAME].rstrip("_")
    # Python normalizes names to NFKC: two names that differ here would become one.
    if not name.isidentifier() or unicodedata.normalize("NFKC", name) != name:
        name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:_LONGEST_NAME].rstrip("_")
    if not name:
        return "value"
    name = f"value_{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name


def literal(text: str) -> str:
    """Return a text as a literal, with the quotes that formatters choose."""
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + _escaped(text).replace(quote, f"\\{quote}") + quote


def docstring(text: str, indent: str) -> list[str]:
    """Return the lines of a docstring, indented.

    Args:
        text: The text, in lines.
        indent: The indentation of each line.
    """
    lines: list[str] = []
    for line in text.expandtabs(4).strip().splitlines():
        inner = line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.wrap(
            line.strip(), max(_WIDTH - len(inner), 20), break_long_words=False, break_on_hyphens=False
        )
        lines += [inner + piece for piece in wrapped] or [""]
    escaped = [_escaped(line).rstrip() for line in lines] or [""]
    for place, line in enumerate(escaped):
        if '"""' in line or (line.endswith('"') and place == len(escaped) - 1):
            escaped[place] = line.replace('"', r"\"")
    escaped[0] = f'"""{escaped[0].lstrip()}'
    if len(escaped) == 1:
        escaped[0] += '"""'
    else:
        escaped.append('"""')
    return [f"{indent}{line}" if line else "" for line in escaped]


def _escaped(text: str) -> str:
    """Return a text with backslashes and invisible characters as escapes."""
    return "".join(
        "\\\\" if c == "\\" else c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )


_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

_ANY: Final = "Any"

_DEEPEST: Final = 30
"""Levels of a schema; deeper ones are typed as `Any`."""

_LONGEST: Final = 1_000
"""Characters of one type; a longer one becomes `Any`."""

_INLINE: Final = 60
"""Characters of an enumeration that is written inline; a longer one has a name."""

_MOST_VALUES: Final = 300

ObjectParts = tuple[dict[str, Any], list[str]]
"""Properties, and the names of the required ones."""


class Types:
    """The types of one module, named as they are needed.

    Args:
        names: The names of the module.
    """

    def __init__(self, names: Names) -> None:
        self.declared: list[str] = []
        """The declarations of the types."""
        self._names = names
        self._by_reference: dict[tuple[int, str], str] = {}
        self._open: set[tuple[int, str]] = set()
        self._roots: list[JSON] = []

    def of(self, schema: Any, root: JSON, name: str, depth: int = 0) -> str:
        """Return the type for the values that a schema allows.

        Args:
            schema: The schema, or a part of it.
            root: The whole schema, to which references point.
            name: The type's name if it needs one.
            depth: How deep the part is.
        """
        kind = self._of(schema, root, name, depth) if depth < _DEEPEST else _ANY
        return kind if len(kind) <= _LONGEST else _ANY

    def _of(self, schema: Any, root: JSON, name: str, depth: int) -> str:
        if not is_object(schema):
            return _ANY
        if isinstance(reference := schema.get("$ref"), str):
            return self._referred(reference, root, name, depth)
        if "const" in schema:
            return self._one_of([schema["const"]], name)
        if is_array(values := schema.get("enum")) and values:
            return self._one_of(values, name)
        properties, _ = object_parts(schema, root)
        if properties:
            own = self._typed_dict(schema, root, name, depth)
            return self._or_other_kinds(own, schema, root, name, depth)
        for key in ("anyOf", "oneOf"):
            if is_array(choices := schema.get(key)) and choices:
                numbered = enumerate(choices, 1)
                return _union(self.of(part, root, f"{name}{number}", depth + 1) for number, part in numbered)
        if is_array(parts := schema.get("allOf")):
            kinds = [self.of(part, root, name, depth + 1) for part in parts]
            return next((part for part in kinds if part != _ANY), _ANY)
        kind = schema.get("type")
        if is_array(kind):
            return _union(self._plain(str(each), schema, root, name, depth) for each in kind)
        return self._plain(str(kind), schema, root, name, depth)

    def _or_other_kinds(self, own: str, schema: JSON, root: JSON, name: str, depth: int) -> str:
        """Return the type of an object, joined with the other kinds that the schema allows: often none."""
        kinds = schema.get("type")
        if not is_array(kinds):
            return own
        return _union([own, *(self._plain(str(kind), schema, root, name, depth) for kind in kinds if kind != "object")])

    def _plain(self, kind: str, schema: JSON, root: JSON, name: str, depth: int) -> str:
        if kind == "array":
            return f"list[{self.of(schema.get('items'), root, f'{name}Item', depth + 1)}]"
        if kind == "object":
            return f"dict[str, {self.of(schema.get('additionalProperties'), root, f'{name}Value', depth + 1)}]"
        return _PLAIN.get(kind, _ANY)

    def _referred(self, reference: str, root: JSON, name: str, depth: int) -> str:
        """Return the type of the target of a reference, which may contain the reference itself."""
        if not any(root is each for each in self._roots):
            self._roots.append(root)  # keeps the object alive, so that its id stays unique
        key = (id(root), reference)
        if key in self._by_reference:
            return self._by_reference[key]
        target = _target(reference, root)
        if target is None or key in self._open:
            return _ANY
        last = reference.rpartition("/")[2]
        called = pascal_case(last, name) if reference != "#" else name
        self._open.add(key)
        try:
            if not target.keys() & {"$ref", "enum", "const"} and object_parts(target, root)[0]:
                own = self._typed_dict(target, root, called, depth, key)
                self._by_reference[key] = made = self._or_other_kinds(own, target, root, called, depth)
                return made
            self._by_reference[key] = made = self.of(target, root, called, depth + 1)
        finally:
            self._open.discard(key)
        return made

    def _typed_dict(self, schema: JSON, root: JSON, name: str, depth: int, key: tuple[int, str] | None = None) -> str:
        properties, required = object_parts(schema, root)
        own = self._names.new(name)
        if key is not None:
            self._by_reference[key] = own  # before its fields, which may refer to the type
        fields = {
            field: self.of(part, root, f"{own}{pascal_case(field, 'Field')}"[:80], depth + 1)
            for field, part in properties.items()
        }
        typed = {field: kind if field in required else f"NotRequired[{kind}]" for field, kind in fields.items()}
        in_types = set(re.findall(r"\w+", " ".join(typed.values())))  # such a field would hide the type
        if all(map(_can_be_attribute, fields)) and in_types.isdisjoint(fields):
            lines = [f"class {own}(TypedDict):", *(f"    {field}: {kind}" for field, kind in typed.items())]
        else:
            # Quoted, because the types may be declared further below.
            quoted = {
                field: literal(kind) if field in required else f"NotRequired[{literal(kind)}]"
                for field, kind in fields.items()
            }
            inner = [f"        {literal(field)}: {kind}," for field, kind in quoted.items()]
            lines = [f"{own} = TypedDict(", f"    {literal(own)},", "    {", *inner, "    },", ")"]
        self.declared.append("\n".join(lines))
        return own

    def _one_of(self, values: list[Any], name: str) -> str:
        if len(values) > _MOST_VALUES or not all(_is_literal(value) for value in values):
            return _union(_type_of(value) for value in values)
        shown = list(dict.fromkeys(literal(value) if isinstance(value, str) else repr(value) for value in values))
        short = f"Literal[{', '.join(shown)}]"
        if len(short) <= _INLINE:
            return short
        own = self._names.new(name)
        self.declared.append("\n".join([f"{own} = Literal[", *(f"    {value}," for value in shown), "]"]))
        return own


def object_parts(schema: Any, root: JSON, depth: int = 0) -> ObjectParts:
    """Return the properties of an object, with those that references and `allOf` add.

    Args:
        schema: The schema.
        root: The whole schema.
        depth: The number of references and `allOf` parts on the way.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    if not is_object(schema) or depth > _DEEPEST // 3:
        return properties, required
    inner: list[Any] = []
    if isinstance(reference := schema.get("$ref"), str):
        inner.append(_target(reference, root))
    if is_array(parts := schema.get("allOf")):
        inner += parts[:_DEEPEST]
    for part in inner:
        further, needed = object_parts(part, root, depth + 1)
        properties |= further
        required += needed
    if is_object(own := schema.get("properties")):
        properties |= own
    if is_array(names := schema.get("required")):
        required += [name for name in names if isinstance(name, str)]
    return properties, required


def _target(reference: str, root: JSON) -> JSON | None:
    """Return the target of a reference within the schema; other references are not followed."""
    part = at_pointer(root, reference) if reference == "#" or reference.startswith("#/") else None
    return part if is_object(part) else None


def _union(kinds: Iterable[str]) -> str:
    """Join several types into one, each once; `None` last."""
    parts = list(dict.fromkeys(kinds))
    if _ANY in parts or not parts:
        return _ANY
    return " | ".join(sorted(parts, key=lambda part: part == "None"))


def _can_be_attribute(name: str) -> bool:
    return re.fullmatch(r"(?!__)[A-Za-z_][A-Za-z0-9_]*", name) is not None and not keyword.iskeyword(name)


def _is_literal(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int))


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "None"
        case str() | bool() | int() | float():
            return type(value).__name__
        case Mapping():
            return "dict[str, Any]"
        case list():
            return "list[Any]"
        case _:
            return _ANY

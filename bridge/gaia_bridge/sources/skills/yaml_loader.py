"""YAML that is JSON: no aliases, dates as texts, no key twice. Whoever verifies a skill reads the same of one text."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

_DATE = "tag:yaml.org,2002:timestamp"


class PlainLoader(yaml.SafeLoader):
    """Reads plain YAML. A date is the text that is written: JSON has none, and readers make different things of it."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse an alias: a few bytes could stand for a document of any size."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not read", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key that comes twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} comes twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class TextLoader(PlainLoader):
    """Reads all values as the texts that are written."""

    yaml_implicit_resolvers = {}

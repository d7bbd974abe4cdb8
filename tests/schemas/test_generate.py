"""The schemas that tests judge by are those that the packages have which carry them."""

from __future__ import annotations

import pytest

from tests.conformance.runner import HERE as CONFORMANCE
from tests.schemas.generate import FIRST, FOLDER, SOURCE_OF_FIRST, first_schema, suite_schemas, written
from tests.support.installed_programs import node_modules, required, source_of
from tests.support.schemas import REVISIONS


def kept(revision: str) -> str:
    return (FOLDER / f"{revision}.json").read_text("utf-8")


def test_schemas_are_those_of_the_official_suite() -> None:
    with required("the official suite"):
        program = node_modules(CONFORMANCE) / "conformance-alpha" / "dist" / "index.js"
        schemas = suite_schemas(program.read_text("utf-8"))
    assert [FIRST, *schemas] == [*REVISIONS]
    for revision, schema in schemas.items():
        assert written(schema) == kept(revision)


@pytest.mark.thorough
def test_the_first_schema_is_that_of_the_sdk_of_its_time() -> None:
    with required(SOURCE_OF_FIRST):
        source = source_of(SOURCE_OF_FIRST)
    assert written(first_schema(source)) == kept(FIRST)

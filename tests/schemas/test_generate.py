"""The schemas that tests judge by are those that the packages have which carry them."""

from __future__ import annotations

import pytest

from tests.schemas.generate import FIRST, FOLDER, SOURCE_OF_FIRST, SUITE, first_schema, suite_schemas, written
from tests.support.installed_programs import needs, required
from tests.support.schemas import REVISIONS


def kept(revision: str) -> str:
    return (FOLDER / f"{revision}.json").read_text("utf-8")


@needs(SUITE)
def test_schemas_are_those_of_the_official_suite() -> None:
    with required("the official suite"):
        program = SUITE.install() / "conformance-alpha" / "dist" / "index.js"
        schemas = suite_schemas(program.read_text("utf-8"))
    assert [FIRST, *schemas] == [*REVISIONS]
    for revision, schema in schemas.items():
        assert written(schema) == kept(revision)


@pytest.mark.thorough
@needs(SOURCE_OF_FIRST)
def test_the_first_schema_is_that_of_the_sdk_of_its_time() -> None:
    with required(str(SOURCE_OF_FIRST)):
        source = SOURCE_OF_FIRST.install()
    assert written(first_schema(source)) == kept(FIRST)

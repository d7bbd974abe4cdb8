"""The pages of reference are what the program says of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gaia_bridge import settings
from gaia_bridge.settings import Limits, UpstreamLimits
from gaia_bridge_cli.program import program
from tests.docs.pages import anchors
from tests.docs.reference import FOLDER, PAGES, fields_of


@pytest.mark.parametrize(("name", "write"), PAGES.items(), ids=PAGES.keys())
def test_a_page_of_reference_is_what_the_program_says(name: str, write: Callable[[], str]) -> None:
    written = (FOLDER / name).read_text("utf-8")
    assert written == write(), "run: python -m tests.docs.reference"


def test_every_command_that_is_shown_to_people_has_a_heading() -> None:
    assert {name for name in program.commands if name != "background"} <= anchors(PAGES["commands.md"]())


def test_a_field_is_told_with_its_default_and_its_docstring() -> None:
    fields = {field.name: field for field in fields_of(UpstreamLimits)}
    assert fields.keys() == set(UpstreamLimits.__struct_fields__)
    assert (fields["pages"].default, fields["pages"].kind) == ("100", "int")
    assert fields["pages"].meaning == "Pages of one list: an endless cursor must end somewhere."


def test_every_setting_has_its_meaning() -> None:
    kinds = [kind for kind in vars(settings).values() if isinstance(kind, type) and issubclass(kind, Limits)]
    fields = [(kind, field) for kind in kinds for field in fields_of(kind) if field.kind not in settings.__all__]
    missing = [f"{kind.__name__}.{field.name}" for kind, field in fields if not field.meaning]
    assert not missing, f"without a docstring (the unit, and the reason for the number): {', '.join(missing)}"

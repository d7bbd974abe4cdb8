"""What `pytest -m core` runs is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.core_tests import DIRECTLY, FOLDERS, MODULES, SLOW, TESTS, is_core


def test_every_folder_and_module_of_the_core_is_there() -> None:
    assert [name for name in (*FOLDERS, *MODULES, *SLOW) if not (TESTS / name).exists()] == []


def test_a_slow_module_of_a_folder_of_the_core_is_left_out() -> None:
    assert [name for name in SLOW if is_core(TESTS / name)] == []
    assert all(is_core((TESTS / name).parent) or (TESTS / name).parent.name in DIRECTLY for name in SLOW)


def test_no_module_of_tests_imports_the_sdk_before_a_test_needs_it() -> None:
    eager = re.compile(r"^(?:from|import) mcp(?:_types)?\b", re.MULTILINE)
    tests = Path(__file__).parent
    assert [str(file) for file in tests.rglob("test_*.py") if eager.search(file.read_text("utf-8"))] == []
    assert eager.search((tests / "oracle" / "sdk_server.py").read_text("utf-8"))  # imported on demand

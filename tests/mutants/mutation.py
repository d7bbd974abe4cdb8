"""One change of the code that breaks a promise, and the tests that have to notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Mutation", "mutations"]


class Mutation(NamedTuple):
    """One mutation.

    Args:
        file: The file, from the root of the project.
        original: A text that occurs exactly once in it.
        mutated: What takes its place.
        tests: What pytest is given: files, folders, or single tests.
        why: Why no test can or need notice, if none does: the change is equivalent, or which other tests cover it.
    """

    file: str
    original: str
    mutated: str
    tests: tuple[str, ...]
    why: str = ""


def mutations(
    file: str, tests: tuple[str, ...], *changes: tuple[str, str] | tuple[str, str, str]
) -> Iterator[Mutation]:
    """Mutations of one file that the same tests notice.

    Args:
        file: The file.
        tests: The tests.
        changes: Of each mutation the original text, the mutated text, and perhaps why no test notices.
    """
    for original, mutated, *why in changes:
        yield Mutation(file, original, mutated, tests, *why)

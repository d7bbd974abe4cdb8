"""Makes an entry of the configuration from a way to a server, and from the user's values. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.review.foreign_entries import refused_text, refused_variable
from gaia_bridge_desk.server_registry.documents import Argument, Input, Package, Remote
from gaia_bridge_desk.server_registry.slots import Answers, AnswersError, Asked, Slot, asked_in, plain, slot_of
from gaia_bridge_desk.server_registry.ways import (
    Runner,
    Way,
    container_warnings,
    package_word,
    runtime_problem,
    url_problem,
)

_VARIABLE_OPTIONS: Final = ("-e", "--env")
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

Kept = Callable[[Asked, str], str]
"""Returns the text to write in the place of a value."""


class UnsafeError(ValueError):
    """A registry's entry that must not be used; the text says why."""


class _Word(Struct, frozen=True):
    """An argument, and the place of its value; a flag has none."""

    argument: Argument
    slot: Slot | None

    def words(self, answers: Answers, kept: Kept) -> list[str]:
        """Return the words for the command line."""
        name = self.argument.name if self.argument.type == "named" else ""
        if self.slot is None:
            return [name]
        return [word for value in self.slot.values(answers, kept) for word in self._with(name, value)]

    def _with(self, name: str, value: str) -> list[str]:
        if not name:
            return [value] if value else []
        if not value:
            return [name]
        if name.endswith("="):
            return [name + value]
        if name.startswith("--") and (self.argument.format == "boolean" or value.startswith("-")):
            return [f"{name}={value}"]
        return [name, value]


class LaunchPlan(Struct, frozen=True):
    """The parts of an entry.

    Args:
        way: The way to the server.
        before: The arguments before the package.
        after: The arguments after the package.
        named: The server's environment variables, or headers.
        url: The server's address.
    """

    way: Way
    before: tuple[_Word, ...] = ()
    after: tuple[_Word, ...] = ()
    named: tuple[tuple[str, Slot], ...] = ()
    url: Slot | None = None

    @property
    def asked(self) -> list[Asked]:
        """The values to ask the user for, each name once."""
        words = [word.slot for word in (*self.before, *self.after) if word.slot is not None]
        url = [self.url] if self.url is not None else []
        return asked_in([*url, *(slot for _, slot in self.named), *words])

    def entry(self, answers: Answers, kept: Kept, further: Mapping[str, str]) -> JSON:
        """Return the entry.

        Args:
            answers: The values.
            kept: Returns the text to write in the place of each value.
            further: Further variables, or headers, of the user.

        Raises:
            AnswersError: The values contradict each other, or the address is invalid with them.
            UnsafeError: A value of the author must not be used.
        """
        self._check(answers)
        named = {name: value for name, slot in self.named for value in slot.values(answers, kept)}
        named.update(further)
        if self.url is not None:
            return self._remote(answers, kept, named)
        package, runner = self.way.what, self.way.runner
        assert isinstance(package, Package) and runner is not None, "a package that can be used has a runner"
        before = self._before(package, runner, answers, kept)
        if package.registry_type == "oci":
            before, assigned = _separate_variables(before)
            named = assigned | named
            mentioned = {word for option, word in zip(before, before[1:], strict=False) if option in _VARIABLE_OPTIONS}
            before += [word for name in named if name not in mentioned for word in ("-e", name)]
        after = [word for each in self.after for word in each.words(answers, kept)]
        fetched = _fetched(package, runner, before)
        words = [*runner.words[1:], *before, fetched, *(runner.before_arguments if after else ()), *after]
        return {"command": runner.words[0], "args": words, **({"env": named} if named else {})}

    def warnings(self, entry: JSON) -> list[str]:
        """Return warnings about risky parts of an entry."""
        args: list[str] = entry.get("args", [])
        return container_warnings(args) if self.way.kind == "oci" else []

    def _remote(self, answers: Answers, kept: Kept, headers: Mapping[str, str]) -> JSON:
        assert self.url is not None and isinstance(self.way.what, Remote), "a way by an address has one"
        urls = self.url.values(answers, lambda _, value: value)
        if not urls:
            raise AnswersError("the address is not complete")
        if problem := url_problem(urls[0]):
            raise AnswersError(problem)
        url = self.url.values(answers, kept)[0]
        entry: JSON = {"url": url, **({"headers": dict(headers)} if headers else {})}
        return entry | ({"type": "sse"} if self.way.what.type == "sse" else {})

    def _before(self, package: Package, runner: Runner, answers: Answers, kept: Kept) -> list[str]:
        own = {package.identifier, package_word(package, runner), f"{package.identifier}@latest"}
        words: list[str] = []
        for each in self.before:
            texts = each.words(answers, kept)
            if each.argument.type == "positional" and texts and texts[0] in own:
                continue  # several authors repeat the package among the runner's options
            words += [word for word in texts if word not in runner.dropped]
        return words

    def _check(self, answers: Answers) -> None:
        """Check the texts of the author, with a letter in the place of each value of the user.

        Raises:
            UnsafeError: A text must not be used.
        """

        def theirs(asked: Asked, value: str, letter: str = "x") -> str:
            return value if value == asked.default or value in map(plain, asked.about.choices) else letter

        def is_theirs(slot: Slot) -> bool:
            with_x, with_y = (slot.values(answers, partial(theirs, letter=letter)) for letter in "xy")
            return any(text != "x" for text in with_x) or any(text != "y" for text in with_y)

        slots = [slot for _, slot in self.named] + [word.slot for word in (*self.before, *self.after) if word.slot]
        slots += [self.url] if self.url is not None else []
        names = [word.argument.name for word in (*self.before, *self.after)]
        for text in (*names, *(text for slot in slots for text in slot.values(answers, theirs))):
            if problem := refused_text(text):
                raise UnsafeError(f"its author writes {problem}")
        if isinstance(package := self.way.what, Package) and self.way.runner is not None:
            words = self._before(package, self.way.runner, answers, theirs)
            also = _separate_variables(words)[1].items() if package.registry_type == "oci" else ()
            assigned = [name for name, text in also if text != "x"]
            for name in (*(name for name, slot in self.named if is_theirs(slot)), *assigned):
                if problem := refused_variable(name):
                    raise UnsafeError(f"its author sets {problem}")
            if problem := runtime_problem(package, self.way.runner, words):
                raise UnsafeError(problem)


def plan_for(way: Way) -> LaunchPlan:
    """Return the parts of the entry for a way."""
    if isinstance(way.what, Remote):
        remote = way.what
        url = slot_of("url", Input(is_required=True, value=remote.url, variables=remote.variables), open_names=True)
        return LaunchPlan(
            way, named=tuple((header.name, slot_of(header.name, header)) for header in remote.headers), url=url
        )
    package = way.what
    return LaunchPlan(
        way,
        before=tuple(_words(package.runtime_arguments, "runtime-argument")),
        after=tuple(_words(package.package_arguments, "argument")),
        named=tuple((each.name, slot_of(each.name, each)) for each in package.environment_variables),
    )


def _words(arguments: tuple[Argument, ...], called: str) -> Iterator[_Word]:
    for number, argument in enumerate(arguments, 1):
        if argument.type == "named":
            bare = Argument(type="named", name=argument.name, is_repeated=argument.is_repeated)
            slot = None if argument == bare else _slot(argument.name.lstrip("-").rstrip("="), argument)
        else:
            slot = _slot(argument.value_hint or f"{called}-{number}", argument)
        yield _Word(argument, slot)


def _slot(name: str, argument: Argument) -> Slot:
    return slot_of(name, argument, repeated=argument.is_repeated)


def _separate_variables(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Separate the values of variables from a container's options: all users of a machine can see a command line."""
    options: list[str] = []
    values: dict[str, str] = {}
    for word in words:
        assigned = _ASSIGNED.fullmatch(word) if options and options[-1] in _VARIABLE_OPTIONS else None
        if assigned is not None:
            values[assigned[1]] = assigned[2]
        options.append(word if assigned is None else assigned[1])
    return options, values


def _fetched(package: Package, runner: Runner, before: list[str]) -> str:
    """Return the word to run: the package in its version, or a program of it where an option names the package."""
    named_before = any(word.partition("=")[0] in runner.own for word in before)
    return package.identifier.partition("[")[0] if named_before else package_word(package, runner)

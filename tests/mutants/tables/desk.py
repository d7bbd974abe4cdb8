"""How the bridge gets into editors, and what of a registry of strangers may become an entry."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation, mutations

__all__ = ["TABLE"]

_EDITORS: Final = "bridge/gaia_bridge_desk/editors/"
_REGISTRY: Final = "bridge/gaia_bridge_desk/server_registry/"

TABLE: Final[tuple[Mutation, ...]] = (
    *mutations(
        f"{_EDITORS}installing.py",
        ("tests/desk/editors/test_installing.py", "tests/desk/editors/test_golden_files.py"),
        ("if old is not None and not is_ours(old) and wanted.name not in records:", "if False:"),
        ("if not is_ours(servers[name]) and record is None:", "if False:"),
        ("if record is not None and record.after == _digest(before):", "if record is not None:"),
        ("        if former is not None:\n", "        if False:\n"),
        ("if record is not None and record.new_file and not document_of(editor, path, text):", "if False:"),
        (
            "if record is not None and record.new_file and not document_of(editor, path, text):",
            "if not document_of(editor, path, text):",
        ),
        ("backup = None if change.before is None else files.keep(change.path, change.before)", "backup = None"),
        ("        if content != change.before:\n            raise", "        if False:\n            raise"),
        ("    if _content(change.path) != change.before:\n", "    if False:\n"),
        ("if not status.st_mode & 0o200:", "if False:"),
        ("    if not is_object(servers):\n", "    if False:\n"),
        (
            "wanted.asked if wanted.asked is not None and not _is_asked(document, wanted.asked) else None",
            "wanted.asked",
        ),
        (
            "if record.new_root and jsonc.read(text).get(editor.root) == {}:",
            "if jsonc.read(text).get(editor.root) == {}:",
        ),
        ("if record.new_root and jsonc.read(text).get(editor.root) == {}:", "if False:"),
        ("if record.new_inputs and jsonc.read(text).get(_INPUTS) == []:", "if False:"),
        ("    if numbers:\n", "    if False:\n"),
        ("            os.rmdir(folder)\n", "            pass\n"),
        ("backup=old.backup if old.after == _digest(before) else None", "backup=old.backup"),
        ("backup=old.backup if old.after == _digest(before) else None", "backup=None"),
        ('after = (_BOM if before is not None and before.startswith(_BOM) else b"") + text', 'after = b"" + text'),
        ("        if old[key] != value:\n", "        if True:\n"),
        ("            new_file=record.new_file or other.new_file,\n", "            new_file=record.new_file,\n"),
        (
            "if record is not None and backup is not None and change.is_undone_by_backup:",
            "if record is not None and backup is not None:",
        ),
    ),
    *mutations(
        f"{_EDITORS}entries.py",
        ("tests/desk/editors/test_installing.py", "tests/cli/test_install.py"),
        ("if key not in new and key not in gone}", "if key not in new}"),
        ("if key not in new and key not in gone}", "if False}"),
        ('_REACHING if "command" in new else _REACHING | _OF_PROGRAMS', "_REACHING"),
        ("parts.port == DEFAULT_PORT", "True"),
        ('is_loopback_host(parts.hostname or "") and', "True and"),
        ("return not _OUR_NAMES.isdisjoint(named)", "return True"),
        ("if words and os.path.basename(words[0]) in _OUR_NAMES:", "if False:"),
        ('.rstrip("0123456789.") in _LAUNCHERS', " in _LAUNCHERS"),
        ("    elif token_variable is not None:\n        return None\n", ""),
    ),
    *mutations(
        "bridge/gaia_bridge_cli/install.py",
        ("tests/cli/test_install.py",),
        ("if not yes and not _agreed(change):", "if False:"),
        ("    if not can_ask():\n", "    if False:\n"),
        ("if not _NAME.fullmatch(name):", "if False:"),
        ("if link and everywhere:", "if False:"),
        ('if way == "http" and (agents or config or not servers):', "if False:"),
        ("token_variable is not None and not _VARIABLE.fullmatch(token_variable)", "False"),
        ("shown = line if _trimmed(line[1:]) in own else redacted(line)", "shown = line"),
        ("shared=place.scope is FileScope.WORKSPACE", "shared=True"),
        ("            if len(chosen) == 1:\n                raise\n", "            raise\n"),
        ("is_here(editor) and usual_place(editor, scope) is not None", "usual_place(editor, scope) is not None"),
        ("if config is not None and not os.path.isfile(Path(folder, config)):", "if False:"),
        ('[] if how.scope.servers else ["--no-servers"]', "[]"),
        ("if editor.name not in EDITORS_WITH_LINKS:", "if False:"),
        ("    if not change.is_one:\n", "    if False:\n"),
        ("        remember_search_path(os.environ)", "        pass"),
    ),
    *mutations(
        f"{_REGISTRY}ways.py",
        ("tests/desk/server_registry/test_runners.py",),
        ("elif option not in runner.allowed or (runner.allowed[option] is None and equals):", "elif False:"),
        ("or (runner.allowed[option] is None and equals):", ":"),
        ("if pattern is None or not pattern.fullmatch(value):", "if pattern is None:"),
        ("if option in runner.own and not _is_same(package, value):", "if False:"),
        ("len(name) > _MAX_IDENTIFIER or not pattern.fullmatch(name)", "not pattern.match(name)"),
        ('(kind != "oci" and _WILD.search(package.version))', "False"),
        ('return "" if value_of is None else', 'return "" if True else'),
        ("if runner.allowed is None:", "if not runner.allowed:"),
    ),
    *mutations(
        f"{_REGISTRY}ways.py",
        ("tests/desk/server_registry/test_ways.py",),
        ('if parts.scheme == "http" and not is_loopback_host(host):', "if False:"),
        ('if "@" in parts.netloc:', "if False:"),
        ("if not way.problem and kind in (None, way.kind)", "if kind in (None, way.kind)"),
        ("if not way.problem and kind in (None, way.kind)", "if not way.problem"),
        ('key=lambda remote: remote.type == "sse"', "key=lambda remote: 0"),
        ("    if package.file_sha256:\n", "    if False:\n"),
        ("if not all(text.isprintable() for text in texts):", "if False:"),
        ("runner=(hinted or runners)[0]", "runner=runners[0]"),
        ('    if package.transport.type != "stdio":\n', "    if False:\n"),
        ("if any(len(text) > _LONGEST for text in texts):", "if False:"),
    ),
    *mutations(
        f"{_REGISTRY}slots.py",
        ("tests/desk/server_registry/test_slots.py",),
        ('if text is None or "${" not in text else None', ""),
        ("        if 0 in counts.values():\n            return []\n", ""),
        ("if count not in (1, most) or (most > 1 and not self.repeated):", "if False:"),
        ("secret = earlier.about.is_secret or asked.about.is_secret", "secret = earlier.about.is_secret"),
        ('inner is None or (parts and str(parts[-1]).endswith("$"))', "inner is None"),
        ("required=earlier.required or asked.required,", "required=earlier.required,"),
        ("number if len(values) > 1 else 0", "0"),
        ("if open_names and _NAME.fullmatch(text) else None", "if open_names else None"),
    ),
    *mutations(
        f"{_REGISTRY}launching.py",
        ("tests/desk/server_registry/test_launching.py",),
        ("        self._check(answers)\n", ""),
        ("            if problem := refused_text(text):\n", "            if problem := None:\n"),
        ("                if problem := refused_variable(name):\n", "                if problem := None:\n"),
        (
            "            if problem := runtime_problem(package, self.way.runner, words):\n",
            "            if problem := None:\n",
        ),
        ("if options and options[-1] in _VARIABLE_OPTIONS else None", "if False else None"),
        ("        if problem := url_problem(urls[0]):\n", "        if problem := None:\n"),
        ('if name.startswith("--") and (self.argument.format == "boolean" or value.startswith("-")):', "if False:"),
        ("if word not in runner.dropped]", "]"),
        ("                continue  # several", "                pass  # several"),
        (
            "return value if value == asked.default or value in map(plain, asked.about.choices) else letter",
            "return letter",
        ),
    ),
)

"""Servers behind the bridge: what is relayed to them, their lives, and the configuration that they come from."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation, mutations

__all__ = ["TABLE"]

_UPSTREAM: Final = "tests/bridge/sources/upstream/"

TABLE: Final[tuple[Mutation, ...]] = (
    *mutations(
        "bridge/gaia_bridge/sources/upstream/relay.py",
        (f"{_UPSTREAM}test_relay.py", f"{_UPSTREAM}test_simultaneous_questions.py", f"{_UPSTREAM}test_shared_logs.py"),
        ("return len({relay.owner for relay in relays}) < 2", "return True"),
        ("return len({relay.owner for relay in relays}) < 2", "return len(relays) < 2"),
        ("            relay.asked -= 1\n", "            pass\n"),
        ("relays = [relay for relay in relays if not relay.asked] or relays", "pass"),
        ("if is_object(meta) and SERVER_INFO_KEY in meta:", "if False:"),
        (
            "if self._unclear[-1] is question and len(self._unclear) >= len(relays):",
            "if len(self._unclear) >= len(relays):",
        ),
        ("self._past.others_given_up(relays) or unexplained > 0", "unexplained > 0"),
        ("self._past.others_given_up(relays) or unexplained > 0", "self._past.others_given_up(relays)"),
        ("relay = known if known is not None and known.can_be_asked(method, params) else None", "relay = known"),
        ("if problem := question_problem(method, params):", "if problem := None:"),
        ("relay.may_log = not modern or relay.request.log_level is not None", "relay.may_log = True"),
        ("            del self._in_flight[number]\n            if not is_answered:", "            if not is_answered:"),
        ("                self._past.note_given_up(relay)\n", "                pass\n"),
        ("if self.askers and relay.can_be_asked_something and not modern:", "if False:"),
        ("self._queue[0] is relay and self._would_be_clear(relay)", "self._would_be_clear(relay)"),
        ("self._queue[0] is relay and self._would_be_clear(relay)", "self._queue[0] is relay"),
        ("result = self._redactor.without_known_in(result)\n        return", "pass\n        return"),
        ("self._redactor.without_known(error.message), data)", "error.message, data)"),
        ("if key not in _OUR_HOP} if request.meta else {}", "} if request.meta else {}"),
        ("if not state.startswith(_STATE):", "if False:"),
        ('return result | {"requestState": _STATE + state} if isinstance(state, str) else result', "return result"),
        ("            _check_declared(question, declared)\n", "            pass\n"),
        (
            "relays = [relay for number, relay in self._in_flight.items() if number == during]",
            "relays = [*self._in_flight.values()]",
        ),
        ("elif self._says_when_it_logs or not (relays or self._is_shared):", "elif not (relays or self._is_shared):"),
        ("if relays and is_clear:", "if relays:"),
        ("past.others_given_up(relays) or past.others_answered(relays)", "False"),
        ("if level not in LOG_LEVELS:", "if False:"),
        ("if not self._wants_roots or connection", "if connection"),
        ("if self._rooted is not None and self._rooted.client == client:", "if False:"),
        ('name in (*ASKABLE, "extensions")', "True"),
        ("if key not in _KNOWN and key not in relay.params}", "if False}"),
    ),
    *mutations(
        "bridge/gaia_bridge/sources/upstream/supervisor.py",
        (f"{_UPSTREAM}test_supervisor.py",),
        ("or self.pause > self._limits.restart_patience", ""),
        ("if self._closed or self.status.state is SourceState.FAILED or self.pause", "if self._closed or self.pause"),
        ("        if self.status.state is SourceState.STOPPED:\n            self._wake.set()\n", ""),
        ("absence.too_late = waiting.cancelled_caught", "pass"),
        (
            "        self._unanswered = 0\n        if self.status.state is SourceState.DEGRADED:",
            "        if self.status.state is SourceState.DEGRADED:",
        ),
        ("if self._connection is not connection:\n            return\n", "if False:\n            return\n"),
        (
            "if self._unanswered >= self._limits.timeouts_before_restart and",
            "if self._unanswered > self._limits.timeouts_before_restart and",
        ),
        ("            if stays:\n                self._wake.set()\n", ""),
        ("blameless = blameless or not (stays or self.requests)", "pass"),
        ("(calm or self.requests or not stays)", "True"),
        ("if self._connection is connection:\n            self.lost", "if True:\n            self.lost"),
        ("            self._restarts.forget()\n", ""),
        (
            "            except ProtocolError:\n                pass  # an answer, too",
            "            except ProtocolError as error:\n                raise UpstreamError(str(error)) from None",
        ),
        ("max(self._limits.idle_timeout, _LEAST_IDLE)", "self._limits.idle_timeout"),
        ("            if self.requests or self._life.needed:\n", "            if self.requests:\n"),
        ("            if self.requests or self._life.needed:\n", "            if self._life.needed:\n"),
        ("pause = None if isinstance(error, LaunchError) else self._restarts", "pause = self._restarts"),
        ("self._restarts.failed(now, error.retry_after or 0)", "self._restarts.failed(now, 0)"),
        ("        if isinstance(error, NotApprovedError):", "        if False:"),
        ("            self._resume_at = now + pause\n", ""),
        (
            "        self._connection = None\n        self.status = SourceStatus(SourceState.STOPPED, reason)",
            "        self.status = SourceStatus(SourceState.STOPPED, reason)",
        ),
        ('last_time = f"; last time {self._failure}" if self._failure else ""', 'last_time = ""'),
        ("tasks.start_soon(self._suspect_after_suspensions)", "pass"),
        (
            "                if self._over.is_set():\n                    return\n                self._become_ready",
            "                self._become_ready",
        ),
        (
            "        if not self.count and self._drained is not None:",
            "        if self._drained is not None:",
            "the same: who waits looks at the count again",
        ),
    ),
    *mutations(
        "bridge/gaia_bridge/config/expansion.py",
        ("tests/bridge/config/test_expansion.py",),
        ('kind == "file" and rest and not rest.startswith("-")', 'kind == "file" and rest'),
        ('kind == "keyring" and rest and not rest.startswith("-")', 'kind == "keyring" and rest'),
        ("return value if name in HARMLESS else self._remembered(value)", "return value"),
        ("return value if name in HARMLESS else self._remembered(value)", "return self._remembered(value)"),
        ('text.removesuffix("\\n").removesuffix("\\r")', "text.rstrip()"),
        ("home.rstrip(os.sep) + self.text", "home + self.text", "shows with HOME=/ only, where it names the same file"),
        ("return self._remembered(self._from_file(place, rest))", "return self._from_file(place, rest)"),
        ("return self._remembered(_from_keyring(place, rest))", "return _from_keyring(place, rest)"),
        (
            "        if value:\n            return value if",
            "        if value is not None:\n            return value if",
        ),
        (
            '        if value is None:\n            raise MissingReferenceError(f"{place} needs the env',
            '        if not value:\n            raise MissingReferenceError(f"{place} needs the env',
        ),
        ('if "${" in reference or "$(" in reference:', 'if "${" in reference:'),
        ("return dollars[: len(dollars) // 2]", "return dollars"),
        ("self._environ = {**environ, **own}", "self._environ = {**own, **environ}"),
        (
            "            return self.text(place, text)\n        try",
            "            return os.path.expanduser(self.text(place, text))\n        try",
        ),
        ("self._folder / expanded(Path(name))", "expanded(Path(name))"),
        ("lambda found: found[0] * 2", "lambda found: found[0]"),
        ("MAX_SECRET)\n            text", "10 * MAX_SECRET)\n            text"),
    ),
    *mutations(
        "bridge/gaia_bridge/config/trust.py",
        ("tests/bridge/config/test_trust.py",),
        (
            "{_FILLED_IN: _filled_in(file, entry), _PROGRAMS: _programs(file, entry)}",
            "{_FILLED_IN: _filled_in(file, entry)}",
        ),
        (
            "{_FILLED_IN: _filled_in(file, entry), _PROGRAMS: _programs(file, entry)}",
            "{_PROGRAMS: _programs(file, entry)}",
        ),
        ("digest([str(_resolved(file)), name, launch_line(entry)])", "digest([name, launch_line(entry)])"),
        (
            "digest([str(_resolved(file)), name, launch_line(entry)])",
            "digest([str(_resolved(file)), launch_line(entry)])",
        ),
        (
            "digest([str(_resolved(file)), name, launch_line(entry)])",
            'digest([str(_resolved(file)), name, entry.get("command")])',
        ),
        ("if problem := writable_by_others(file.status):", "if problem := None:"),
        ("return {**_without(approved, place, name), approval_key", "return {**approved, approval_key"),
        ("return file.parent.resolve() / file.name", "return file.resolve()"),
        ("return file.parent.resolve() / file.name", "return file.absolute()"),
        ("if status.st_size > largest or not stat.S_ISREG", "if not stat.S_ISREG"),
        ('os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)', "os.O_RDONLY"),
        ("        self._approved = self._read()\n        return changed", "        return changed"),
        ("and Path(place, name) != own)", ")"),
        ("if name not in _NOT_RUN and", "if"),
        ("if entry.name.endswith(_MODULE_ENDINGS) or _is_package(entry))", "if entry.name.endswith(_MODULE_ENDINGS))"),
        ("if entry.name.endswith(_MODULE_ENDINGS) or _is_package(entry))", "if _is_package(entry))"),
        (
            "return any(_is_of(place, name, kept) and _named(key, kept) == approval for",
            "return any(_named(key, kept) == approval for",
            "the same: the key of an approval is made of its file and name",
        ),
        ('(approval.get("file"), approval.get("server")) == (place, name)', 'approval.get("server") == name'),
        ("return digest([key, approval.get(_FILLED_IN), approval.get(_PROGRAMS)])", "return key"),
        ("            return found[:WHOLE_FILES], False\n", "            return found, False\n"),
        ("        if not is_object(approval):\n            return None\n", ""),
    ),
)

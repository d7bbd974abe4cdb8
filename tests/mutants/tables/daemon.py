"""What an editor starts: the front, which relays to the bridge in the background and goes on with the next one."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation, mutations

__all__ = ["TABLE"]

_FRONT: Final = "bridge/gaia_bridge_daemon/front/"
_TESTS: Final = "tests/daemon/front/"

TABLE: Final[tuple[Mutation, ...]] = (
    *mutations(
        f"{_FRONT}conversation.py",
        (f"{_TESTS}test_conversation.py",),
        ('        "tools/list",\n    )', '        "tools/list",\n        "tools/call",\n    )'),
        ("return bool(self._open or self._questions)", "return bool(self._open)"),
        ("return not (self.is_open or self._waited_for)", "return not self.is_open"),
        (
            "                self._questions.discard(identifier)\n            elif",
            "                pass\n            elif",
        ),
        ("                    self._open[identifier] = (method, own)\n", "                    pass\n"),
        ('                yield _error(identifier, f"{method}: {why}")\n', "                pass\n"),
        ("        yield from self._taken_back(why)\n", ""),
        ('            yield self._request("initialize", self._handshake)\n', "            pass\n"),
        ('            yield self._request("logging/setLevel", self._level)\n', "            pass\n"),
        ('            yield self._request("resources/subscribe", params)\n', "            pass\n"),
        ("        yield from self._listens.values()\n", ""),
        ('if _object(self._told.get(kind)).get("listChanged"):', "if True:"),
        (
            "            return False\n        self._forget_listening(identifier)\n        self.has_begun",
            "            return True\n        self._forget_listening(identifier)\n        self.has_begun",
        ),
        ("if len(self._waited_for) > _WAITED_FOR:", "if False:"),
        (
            "            self._open.pop(identifier, None)\n            self._forget_listening(identifier)\n",
            "            self._open.pop(identifier, None)\n",
        ),
        ("self.last_asked = max(self.last_asked, identifier)", "self.last_asked = identifier"),
        ("is_news = subscription not in self._repeated", "is_news = True"),
        ("return type(value) is int or type(value) is str", "return isinstance(value, int | str)"),
        ("        self._questions.clear()\n\n", "\n"),
        ("            if isinstance(result, dict):\n", "            if True:\n"),
        ("elif _ASKS in line or _TASK in line:", "elif _ASKS in line:"),
        ("elif _ASKS in line or _TASK in line:", "elif _TASK in line:"),
        ("os.urandom(8).hex()", '"0"'),
    ),
    *mutations(
        f"{_FRONT}relay.py",
        (f"{_TESTS}test_relay.py",),
        ("            if line.startswith(GREETING):  # so", "            if False:  # so"),
        ("        self._to_bridge += self._from_client.overlong()\n", ""),
        ("if len(self._losses) > _RESTARTS:", "if False:"),
        ("if loss > now - _RESTART_WINDOW), now]", "), now]"),
        ("if not (self._is_resting or self._is_moving or self._is_to_move):", "if True:"),
        (
            "if self._conversation.is_open or not (self._is_resting or self._input_ended):",
            "if self._conversation.is_open or not self._input_ended:",
        ),
        ("if self._refusal and time.monotonic() < self._retry_at:", "if False:"),
        ("for line in self._conversation.replay():", "for line in ():"),
        ("        self._tell_client(self._conversation.resumed())\n", ""),
        ("self._conversation.is_quiet and not", "not"),
        ("            self._to_bridge += written(do=MOVE)", "            pass"),
        ("        self._tell_client(self._conversation.lost(_WHY))\n", ""),
        ("        self._conversation.unsent(bytes(self._to_bridge))\n", ""),
        ("        self._from_client.skip()\n", ""),
        ("if time.monotonic() > (self._until or 0):", "if False:"),
        ("self._bridge is None or not self._conversation.is_open", "True"),
        ("            elif self._conversation.from_bridge(line):\n", "            else:\n"),
        ("            os.set_blocking(descriptor, True)\n", "            pass\n"),
        ("len(self._to_bridge) < _UNSENT", "True"),
        ("self._tell_client(self._conversation.ended(why))", "pass"),
    ),
    *mutations(
        f"{_FRONT}place.py",
        (f"{_TESTS}test_place.py",),
        ("and about.st_uid == os.getuid() and", "and"),
        ("and not about.st_mode & 0o077", ""),
        ("about = os.lstat(folder)\n    except", "about = os.stat(folder)\n    except"),
        ("+ _longest_name() > _SOCKET_PATH", "> _SOCKET_PATH"),
        ("if os.path.isabs(runtime) and is_private(runtime):", "if os.path.isabs(runtime):"),
        ("    if not is_private(folder):\n        raise", "    if False:\n        raise"),
        ("parts = (self.config, self.folder, *self.agents,", "parts = (self.config, *self.agents,"),
        ('*(() if self.servers else ("--no-servers",))', "*()"),
        ("local = servers and config is None and", "local = servers and"),
        ("or agent in _SHIPPED for agent in found)", "for agent in found)"),
        ("if agent in _SHIPPED:  # whatever", "if False:  # whatever"),
        ('"" if is_own else', '"" if True else'),
        ("mode=0o700, exist_ok=True", "exist_ok=True"),
    ),
)

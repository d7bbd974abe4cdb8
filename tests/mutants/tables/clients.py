"""Logins at servers: what is fetched, where it may lead, what comes back, and how it is kept."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation, mutations

__all__ = ["TABLE"]

_OAUTH: Final = "bridge/gaia_bridge/client/oauth/"
_TESTS: Final = "tests/bridge/client/oauth/"

TABLE: Final[tuple[Mutation, ...]] = (
    *mutations(
        f"{_OAUTH}fetching.py",
        (f"{_TESTS}test_fetching.py",),
        ("return parsed.is_global and not parsed.is_multicast", "return parsed.is_global"),
        ("return is_public(str(parsed.ipv4_mapped))", "return True"),
        ("return is_public(str(_low_half(parsed)))", "return True"),
        ("if parsed.scope_id or parsed not in _UNICAST or", "if parsed.scope_id or"),
        ("yield address.sixtofour", "pass"),
        ("& ~_UNIVERSAL == _ISATAP", "== _ISATAP"),
        ('    IPv4Network("168.63.129.16/32"),', ""),
        (
            'if url.scheme != "https" and not (allow_http and url.scheme == "http"):',
            'if not (url.scheme == "https" or allow_http):',
        ),
        ("    if url.userinfo:\n", "    if False:\n"),
        ('labels[-1].isdigit() or labels[-1].startswith("0x")', "labels[-1].isdigit()"),
        ('return "%" not in host and bool(ip_address(host))', "return bool(ip_address(host))"),
        ("if len(str(url)) > LONGEST_URL:", "if False:"),
    ),
    *mutations(
        f"{_OAUTH}fetching.py",
        (f"{_TESTS}test_fetching.py",),
        (
            "if self._local and all(map(is_loopback_address, addresses)):",
            "if all(map(is_loopback_address, addresses)):",
        ),
        (
            "if self._local and all(map(is_loopback_address, addresses)):",
            "if self._local and any(map(is_loopback_address, addresses)):",
        ),
        ("if all(map(is_public, addresses)):", "if any(map(is_public, addresses)):"),
        ("return place in self._configured and place not in self._public", "return place in self._configured"),
        ("return place in self._configured and place not in self._public", "return place not in self._public"),
        ("for _ in range(_HOPS + 1):", "for _ in range(100):"),
        ("if len(body) > self._limits.fetch_bytes:", "if False:"),
        ("origin(target) != origin(request.url) or target.userinfo", "target.userinfo"),
        ("origin(target) != origin(request.url) or target.userinfo", "origin(target) != origin(request.url)"),
        ("if name in _SENT}", "}"),
        ('if encoding not in ("", "identity"):', "if False:"),
        ('request.method != "GET" and response.status_code not in _KEEPING_METHOD', "False"),
        ("with anyio.fail_after(seconds):", "with anyio.fail_after(None):"),
    ),
    *mutations(
        f"{_OAUTH}grants.py",
        (f"{_TESTS}test_hostile_servers.py",),
        ("if expected is not None and not issuers_match(issuer, expected):", "if False:"),
        ('if options.asks_user and "S256" not in', 'if False and "S256" not in'),
        (
            "            validate_authorization_response_iss(refusal.issuer",
            "            (lambda *_: None)(refusal.issuer",
        ),
        ("        self._check()\n        if self._redirect_uri", "        if self._redirect_uri"),
        ("        if expected is not None:\n            raise", "        if False:\n            raise"),
    ),
    *mutations(
        f"{_OAUTH}grants.py",
        (f"{_TESTS}test_grants.py",),
        ('return f"{page}&{parameters}" if "?" in page else address', "return address"),
        ("client.client_secret_expires_at <= time.time()", "False"),
        ("return not client.redirect_uris or self._redirect_uri in client.redirect_uris", "return True"),
        ("return next(matching, advertised[0])", "return advertised[0]"),
    ),
    *mutations(
        f"{_OAUTH}callback.py",
        (f"{_TESTS}test_interaction.py", f"{_TESTS}test_attacks.py"),
        ("if not (self._state and secrets", "if not (secrets"),
        ('secrets.compare_digest(answer.get("state", "").encode(), self._state)', "True"),
        ("if len(hosts) != 1 or hosts[0] not in self._hosts:", "if False:"),
        ("if len(hosts) != 1 or hosts[0] not in self._hosts:", "if hosts[0] not in self._hosts:"),
        ('if method != "GET":', "if False:"),
        ("if target.path != CALLBACK_PATH:", "if not target.path.startswith(CALLBACK_PATH):"),
        ("if len(values) == 1}", "}"),
        ("if not self._answer.done():", "if True:"),
    ),
    *mutations(
        f"{_OAUTH}answers.py",
        (f"{_TESTS}test_hostile_servers.py",),
        ("bool(_TOKEN.fullmatch(token.access_token))", "True"),
        ("-_LONGEST < (token.expires_in or 0) < _LONGEST", "True"),
        ('if grant_of(request) != "refresh_token" or response', "if response"),
        ("if response.status_code not in (200, 201):", "if False:"),
    ),
    *mutations(
        f"{_OAUTH}answers.py",
        (f"{_TESTS}test_grants.py", f"{_TESTS}test_provider.py"),
        ("or response.status_code not in _REFUSALS:", "or False:"),
        ('!= "invalid_client_metadata" or "scope" not in', '!= "invalid_client_metadata" and "scope" not in'),
        (
            'if _error_of(response)[0] != "invalid_client_metadata" or "scope" not in registration:',
            'if _error_of(response)[0] != "invalid_client_metadata":',
        ),
    ),
    *mutations(
        f"{_OAUTH}store.py",
        (f"{_TESTS}test_store.py",),
        ("json.dumps([self._resource, client_id, issuer])", "json.dumps([self._resource, client_id])"),
        ("json.dumps([self._resource, client_id, issuer])", "json.dumps([self._resource, issuer])"),
        ("login is not None and login.resource == self._resource", "login is not None"),
        ("            os.fchmod(descriptor, 0o600)\n", ""),
        ('getattr(os, "O_NOFOLLOW", 0) | ', ""),
        ("        folder.chmod(0o700)\n", "        pass\n"),
        ("        os.unlink(temporary)\n", "        pass\n"),
        ("time.time() >= self.expires_at", "False"),
        ("elif content is not None and self._held:", "elif content is not None:"),
        ('"server": self._server, "protection": self._protection}', "}"),
        ('"tokens": None, "expires_at": None}', '"expires_at": None}'),
    ),
)

"""The file of the token changes while a bridge runs."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from gaia_bridge.server.http.access_policy import LiveToken
from gaia_bridge_cli.serving.bridge_runner import follow_token
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

TOKEN, OTHER = "t" * 40, "u" * 40


async def test_the_file_of_the_token_is_read_again_and_made_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    token, texts = LiveToken(TOKEN), list[str]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow_token, token, path, texts.append)
        await anyio.lowlevel.checkpoint()
        path.write_text(OTHER)
        await until(lambda: texts == [OTHER])
        path.unlink()
        await until(lambda: len(texts) == 2)
        tasks.cancel_scope.cancel()
    assert token.text == texts[1] == path.read_text().strip()

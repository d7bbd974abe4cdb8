#!/usr/bin/env bash
# @openai/codex 0.171.0: `codex mcp add` writes the tables of all other servers anew, without the comments in them;
# comments outside of these tables stay.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit @openai/codex@0.171.0
export CODEX_HOME=$work/codex-home
mkdir "$CODEX_HOME"
cat > "$CODEX_HOME/config.toml" <<'TOML'
# outside
model = "gpt-5" # the usual

[mcp_servers.time]
# inside
command = "uvx"
args = ["mcp-server-time"] # behind
TOML
npm ls @openai/codex | tail -n +2 | head -1
npx codex mcp add clock -- uvx clock 2>errors.log
cat "$CODEX_HOME/config.toml"
left=$(grep -oE '# (outside|the usual|inside|behind)' "$CODEX_HOME/config.toml" | paste -sd,)
echo "comments left: $left"
[[ $left == '# outside,# the usual' ]]

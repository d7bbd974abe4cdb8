#!/usr/bin/env bash
# @modelcontextprotocol/sdk 1.32.2: `listTools()` throws for the whole list if one output schema is not what Ajv compiles:
# a `pattern` in the syntax of another language, or the `id` of draft-04. With one server, nobody else is hurt; of a
# merged list, every tool is lost.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit @modelcontextprotocol/sdk@1.32.2
cat > list.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

async function listed(outputSchema) {
  const good = { name: "good", inputSchema: { type: "object" } };
  const tools = [good, { ...good, name: "odd", outputSchema }];
  const server = new Server({ name: "finding", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools }));
  const client = new Client({ name: "finding", version: "1" });
  const [one, other] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(one), client.connect(other)]);
  try {
    return (await client.listTools()).tools.map((tool) => tool.name).join(", ");
  } catch (error) {
    return `throws: ${String(error.message).split("\n")[0]}`;
  } finally {
    await client.close();
  }
}

const text = (more) => ({ type: "object", properties: { a: { type: "string", ...more } } });
const seen = {
  "a pattern of ECMAScript": await listed(text({ pattern: "(?<year>[0-9]+)" })),
  "a pattern of Python": await listed(text({ pattern: "(?P<year>[0-9]+)" })),
  "the id of draft-04": await listed({ ...text({}), id: "https://example.com/a" }),
};
console.log(seen);
const [fine, ...others] = Object.values(seen);
process.exit(fine === "good, odd" && others.every((outcome) => outcome.startsWith("throws")) ? 0 : 1);
JS
npm ls @modelcontextprotocol/sdk | tail -n +2
node list.mjs

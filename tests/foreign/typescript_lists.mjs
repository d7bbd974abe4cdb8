// Lists everything at several endpoints, with both TypeScript SDKs, in each era that they speak.
//
//   node typescript_lists.mjs URL...
//
// Prints as JSON, for each endpoint and client, the names in each list, or the error in its place.
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from "@modelcontextprotocol/client";

const CLIENTS = {
  "sdk 1": () => [new Client1({ name: "lists", version: "0" }), Transport1],
  "sdk 2 legacy": () => [new Client2({ name: "lists", version: "0" }, { versionNegotiation: { mode: "legacy" } }), Transport2],
  "sdk 2 auto": () => [new Client2({ name: "lists", version: "0" }, { versionNegotiation: { mode: "auto" } }), Transport2],
};
const LISTS = {
  tools: async (client) => (await client.listTools()).tools,
  prompts: async (client) => (await client.listPrompts()).prompts,
  resources: async (client) => (await client.listResources()).resources,
  templates: async (client) => (await client.listResourceTemplates()).resourceTemplates,
};

async function attempt(ask) {
  try {
    return await ask();
  } catch (error) {
    return `${error.message}`.slice(0, 300);
  }
}

async function listed(make, url) {
  const [client, Transport] = make();
  await client.connect(new Transport(new URL(url)));
  const told = {};
  for (const [kind, list] of Object.entries(LISTS)) {
    told[kind] = await attempt(async () => (await list(client)).map((item) => item.name));
  }
  const tools = Array.isArray(told.tools) ? told.tools : [];
  told.calls = {};
  for (const name of tools) {
    told.calls[name] = await attempt(async () => (await client.callTool({ name, arguments: {} })).content[0].text);
  }
  await client.close();
  return told;
}

const told = {};
for (const url of process.argv.slice(2)) {
  told[url] = {};
  for (const [name, make] of Object.entries(CLIENTS)) told[url][name] = await attempt(() => listed(make, url));
}
console.log(JSON.stringify(told));

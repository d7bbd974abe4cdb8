/**
 * One round with a TypeScript SDK: `node typescript_client.mjs sdk|client stdio|sse|http legacy|auto TARGET...`.
 *
 * `sdk` is @modelcontextprotocol/sdk 1.x, which knows no other era than legacy; `client` is @modelcontextprotocol/client
 * 2.x. Prints one JSON document: what it was told. `python_client.py` plays the same round.
 */

import { EventEmitter, once } from "node:events";

const PATIENCE = 60_000; // milliseconds; it is started twice, perhaps on a busy machine

/** @returns the parts of one SDK: its client and transports, and how it takes a form handler and call options. */
async function load(sdk) {
  if (sdk === "sdk") {
    const root = "@modelcontextprotocol/sdk";
    const { ElicitRequestSchema } = await import(`${root}/types.js`);
    return {
      ...(await import(`${root}/client/index.js`)),
      ...(await import(`${root}/client/stdio.js`)),
      ...(await import(`${root}/client/sse.js`)),
      ...(await import(`${root}/client/streamableHttp.js`)),
      elicitation: ElicitRequestSchema,
      call: (client, params, options) => client.callTool(params, undefined, options),
    };
  }
  return {
    ...(await import("@modelcontextprotocol/client")),
    ...(await import("@modelcontextprotocol/client/stdio")),
    elicitation: "elicitation/create",
    call: (client, params, options) => client.callTool(params, options),
  };
}

function transportOf(sdk, name, [target, ...args]) {
  switch (name) {
    case "stdio":
      return new sdk.StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" });
    case "sse":
      return new sdk.SSEClientTransport(new URL(target));
    default:
      return new sdk.StreamableHTTPClientTransport(new URL(target));
  }
}

/** Remembers which revision was negotiated: every transport is told, and not every client can be asked. */
function recordVersion(transport, told) {
  const inner = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    told.version = version;
    inner?.(version);
  };
}

async function introduce(client, told) {
  const { name, version } = client.getServerVersion();
  told.server = { name, version };
  told.instructions = client.getInstructions();
  told.tools = (await client.listTools()).tools;
  told.prompts = (await client.listPrompts()).prompts;
  told.resources = (await client.listResources()).resources;
  told.templates = (await client.listResourceTemplates()).resourceTemplates;
}

async function callTools(call, told) {
  const lengths = [{ value: 1.5 }, { value: 2 }];
  const called = await call({ name: "add-lengths", arguments: { unit: "m", lengths } });
  told.called = {
    structured: called.structuredContent,
    text: JSON.parse(called.content[0].text),
    failed: called.isError ?? false,
  };
  const invalid = await call({ name: "add-lengths", arguments: { unit: "mile", lengths } });
  const places = invalid.content[0].text.matchAll(/at (\/\w+)/g);
  told.invalid = { failed: invalid.isError, where: [...places].map((found) => found[1]) };
  try {
    await call({ name: "no-such-tool", arguments: {} });
  } catch (error) {
    told.unknown = { code: error.code };
  }
  await count(call, told);
  told.answered = (await call({ name: "ask", arguments: {} })).structuredContent;
}

async function count(call, told) {
  told.progress = [];
  const seen = Promise.withResolvers();
  const onprogress = ({ progress, total, message }) => {
    told.progress.push([progress, total, message]);
    if (progress === total) seen.resolve();
  };
  const counting = call({ name: "count", arguments: {} }, { onprogress });
  await seen.promise;
  await call({ name: "seen", arguments: {} });
  told.counted = (await counting).structuredContent;
}

async function read(client, told) {
  told.prompt = (await client.getPrompt({ name: "greet", arguments: { name: "Ada", tone: "kindly" } })).messages;
  told.resource = (await client.readResource({ uri: "note://today" })).contents;
  told.templated = (await client.readResource({ uri: "note://monday" })).contents;
}

/** @returns the tools that the client fetched because the server said, after an action, that they changed. */
async function listAfter(changes, action) {
  const next = once(changes, "tools");
  await action();
  return (await next)[0];
}

async function play(sdkName, transportName, mode, target) {
  const sdk = await load(sdkName);
  const told = {};
  const changes = new EventEmitter();
  const client = new sdk.Client(
    { name: "smoke", version: "0" },
    {
      capabilities: { elicitation: {} },
      versionNegotiation: { mode },
      listChanged: { tools: { onChanged: (error, tools) => changes.emit(error ? "error" : "tools", error ?? tools) } },
    },
  );
  client.setRequestHandler(sdk.elicitation, ({ params }) => {
    told.asked = { message: params.message, requestedSchema: params.requestedSchema };
    return { action: "accept", content: { sure: true } };
  });
  const transport = transportOf(sdk, transportName, target);
  recordVersion(transport, told);
  await client.connect(transport);

  const call = (params, options) => sdk.call(client, params, options);
  await introduce(client, told);
  await callTools(call, told);
  await read(client, told);
  told.learned = (await listAfter(changes, () => call({ name: "learn", arguments: {} }))).map((tool) => tool.name);
  await listAfter(changes, () => call({ name: "forget", arguments: {} }));
  await client.close();
  return told;
}

const [sdkName, transportName, mode, ...target] = process.argv.slice(2);
const timer = setTimeout(() => {
  console.error(`not done after ${PATIENCE} ms`);
  process.exit(1);
}, PATIENCE);
console.log(JSON.stringify(await play(sdkName, transportName, mode, target)));
clearTimeout(timer);

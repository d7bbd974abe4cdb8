// A client that makes a task itself, by the TypeScript SDK: prints as JSON what it was told of it, by the id that it has.
//
//   node typescript_tasks.mjs URL TOOL
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  ElicitRequestSchema,
  RELATED_TASK_META_KEY,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [url, tool] = process.argv.slice(2);
const told = { statuses: [], asked: [], made: null, result: null };
const client = new Client({ name: "tasks", version: "1" }, { capabilities: { elicitation: { form: {} } } });

client.setRequestHandler(ElicitRequestSchema, (request) => {
  told.asked.push(request.params._meta[RELATED_TASK_META_KEY].taskId);
  return { action: "accept", content: { interpretation: "snake" } };
});
client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => {
  told.statuses.push([params.taskId, params.status]);
});

await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.listTools();
const messages = client.experimental.tasks.callToolStream(
  { name: tool, arguments: { topic: "python", ambiguous: true } },
  CallToolResultSchema,
  { task: { ttl: 60_000 } },
);
for await (const message of messages) {
  if (message.type === "taskCreated") told.made = message.task.taskId;
  if (message.type === "error") throw message.error;
  if (message.type === "result") {
    told.result = [message.result._meta[RELATED_TASK_META_KEY].taskId, message.result.content[0].text];
  }
}
await client.close();
console.log(JSON.stringify(told));

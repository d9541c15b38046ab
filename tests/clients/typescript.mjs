// What the official TypeScript client sees in both eras, in a whole session and with background tools.
//
//     node typescript.mjs URL
//
// prints it as one JSON object, by session and era. The sessions share a process, because its start takes longer than they do.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { rawDispatchTo } from "./raw.mjs";
import { driven } from "./tasks.mjs";

const [url] = process.argv.slice(2);
const rawDispatch = rawDispatchTo(url);
const info = { name: "typescript", version: "1.0.0" };
const capabilities = { elicitation: {}, sampling: {}, roots: {}, extensions: { "io.modelcontextprotocol/tasks": {} } };
const anything = { "~standard": { version: 1, vendor: "baton", validate: (value) => ({ value }) } };
const order = { order_id: "A-17" };

/** Returns the value of a promise, or an error's code. */
const settled = (promise) => promise.then((value) => value ?? null, (error) => ({ error: error.code ?? String(error) }));

async function connected(mode, seen) {
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { name: "Kim" } }));
  client.setRequestHandler("sampling/createMessage", async () => ({
    role: "assistant",
    content: { type: "text", text: "Hello" },
    model: "m",
  }));
  client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///home/kim/shop" }] }));
  client.setNotificationHandler("notifications/message", ({ params }) => void seen.logs.push(params.data));
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

async function look(client, seen) {
  seen.revision = client.getNegotiatedProtocolVersion();
  const server = client.getServerVersion();
  seen.server = [server.name, server.version];
  seen.instructions = client.getInstructions();
  seen.tools = (await client.listTools()).tools.map(({ name }) => name);
  seen.prompts = (await client.listPrompts()).prompts.map(({ name }) => name);
  seen.resources = (await client.listResources()).resources.map(({ uri }) => uri);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate);
}

async function use(client, seen, mode) {
  seen.resource = (await client.readResource({ uri: "orders://A-17" })).contents[0].text;
  const ref = { type: "ref/prompt", name: "apology" };
  seen.completion = (await client.complete({ ref, argument: { name: "order_id", value: "A" } })).completion.values;
  seen.call = (await client.callTool({ name: "fetch_order", arguments: order })).structuredContent;
  seen.failed = (await client.callTool({ name: "fetch_order", arguments: { order_id: "B-1" } })).isError;
  const onprogress = ({ progress, total, message }) => void seen.progress.push([progress, total, message]);
  const _meta = { "io.modelcontextprotocol/logLevel": "info" };
  const call = { name: "count", arguments: { to: 3 }, ...(mode === "legacy" ? {} : { _meta }) };
  await client.callTool(call, { onprogress });
  seen.interview = (await client.callTool({ name: "interview", arguments: {} })).content[0].text;
}

async function tour(client, mode, paused, other) {
  const v2RequestFraming = { protocolVersion: "2026-07-28", clientInfo: info, clientCapabilities: capabilities };
  const raw = mode === "legacy" ? {} : { rawDispatch, v2RequestFraming };
  const session = createTaskSessionFromClient(client, { endpointId: "baton", ...raw });
  const task = session.task(paused);
  const tasks = { task: (await task.snapshot()).raw, listed: await settled(session.listTasks()) };
  // The package does not support a cancel with a result, which is Baton's own extension. It is sent as a plain request.
  const completion = { method: "tasks/cancel", params: { taskId: paused, result: { resultType: "complete", content: [{ type: "text", text: "Refunded" }] } } };
  tasks.completed = await settled(mode === "legacy" ? client.request(completion, anything) : rawDispatch(framed(completion)));
  tasks.after = (await task.snapshot()).raw;
  const outcome = await task.result();
  tasks.result = { status: outcome.status, error: outcome.error?.message ?? null, content: outcome.result?.content ?? null };
  tasks.cancelled = await settled(session.cancelTask(other));
  tasks.gone = (await session.task(other).snapshot()).raw;
  tasks.unknown = await settled(session.task("0".repeat(34)).snapshot());
  await session.close();
  return tasks;
}

function framed({ method, params }) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": info,
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  return { method, params: { ...params, _meta } };
}

async function work(client, seen, mode) {
  seen.paused = await client.getPrompt({ name: "refund_order", arguments: order });
  const task = seen.paused._meta.task_id;
  const approved = { ...order, amount: 240, approved_by: "Ada" };
  seen.continued = await client.callTool({ name: "refund", arguments: approved, _meta: { _task_id: task } });
  const other = await client.getPrompt({ name: "refund_order", arguments: order });
  seen.tasks = await tour(client, mode, task, other._meta.task_id);
}

/** Does the same as a host's model, with tools and arguments only: the workflow tool, the step's tool, the workflow tool. */
async function beAHost(client, seen) {
  const started = await client.callTool({ name: "refund_order", arguments: order });
  const task = { task_id: started.structuredContent.task_id };
  const made = await client.callTool({ name: "refund", arguments: { ...order, amount: 240, approved_by: "Ada", ...task } });
  const done = await client.callTool({ name: "refund_order", arguments: task });
  seen.hosted = [started, made, done];
}

async function session(mode) {
  const seen = { progress: [], logs: [] };
  const client = await connected(mode, seen);
  await look(client, seen);
  await use(client, seen, mode);
  await work(client, seen, mode);
  await beAHost(client, seen);
  await client.close();
  return seen;
}

const seen = {};
for (const mode of ["legacy", "auto"]) {
  seen[`typescript-${mode}`] = await session(mode);
  seen[`ext-tasks-${mode}`] = await driven(url, mode);
}
process.stdout.write(JSON.stringify(seen));

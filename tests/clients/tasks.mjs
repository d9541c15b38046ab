// Calls background tools with ext-tasks.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, toolDeclarationFromMcpTool } from "@modelcontextprotocol/ext-tasks/client";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rawDispatchTo } from "./raw.mjs";

const info = { name: "typescript", version: "1.0.0" };
const capabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } };

async function called(session, name, args) {
  const execution = await session.callTool(name, args, { task: { preference: "prefer" } });
  const { outcome } = await execution.settle();
  return { kind: execution.kind ?? null, status: outcome.status, result: outcome.result ?? null, error: outcome.error?.message ?? null };
}

/** Runs a workflow that waits for a callback, and sends the callback when the task's status message says that it waits. */
async function released(session) {
  const file = join(mkdtempSync(join(tmpdir(), "baton-")), "address");
  const execution = await session.callTool("release", { file }, { task: { preference: "prefer" } });
  const tasks = [];
  let sent = null;
  const onEvent = async ({ task }) => {
    if (!task) return;
    tasks.push([task.status, task.statusMessage ?? null]);
    if (sent || !task.statusMessage?.startsWith("waits for a callback")) return;
    const headers = { "Content-Type": "application/json" };
    sent = fetch(readFileSync(file, "utf8"), { method: "POST", headers, body: '{"order": "A-17"}' });
    sent = (await sent).status;
  };
  const { outcome } = await execution.settle({ onEvent });
  return { kind: execution.kind, task: execution.handle.taskId, tasks, sent, status: outcome.status, result: outcome.result.structuredContent };
}

/** Returns what the client sees at an address in a mode, `legacy` or `auto`. */
export async function driven(url, mode) {
  const seen = { asked: [] };
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
  const v2RequestFraming = { protocolVersion: "2026-07-28", clientInfo: info, clientCapabilities: capabilities };
  const session = createTaskSessionFromClient(client, {
    endpointId: "baton",
    tools: { currentTool: (name) => tools.get(name) },
    /** Fills in every form, and records how it was delivered. */
    onInputRequest: async (request, context) => {
      seen.asked.push([request.kind, request.params.message, context.delivery]);
      return { action: "accept", content: { name: `Kim ${seen.asked.length}` } };
    },
    ...(mode === "legacy" ? {} : { rawDispatch: rawDispatchTo(url), v2RequestFraming }),
  });
  seen.revision = client.getNegotiatedProtocolVersion();
  seen.added = await called(session, "add_up", { numbers: [1, 2, 3] });
  seen.lost = await called(session, "lose", {});
  seen.packed = await called(session, "dispatch_goods", {});
  seen.booked = await called(session, "book", {});
  seen.released = await released(session);
  await session.close();
  await client.close();
  return seen;
}

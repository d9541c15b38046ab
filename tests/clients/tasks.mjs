// Tools that run in the background, driven by ext-tasks; prints what it saw as one JSON object.
//
//     node tasks.mjs URL legacy|auto
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, toolDeclarationFromMcpTool } from "@modelcontextprotocol/ext-tasks/client";
import { rawDispatchTo } from "./raw.mjs";

const [url, mode] = process.argv.slice(2);
const rawDispatch = rawDispatchTo(url);
const info = { name: "typescript", version: "1.0.0" };
const capabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } };
const seen = { asked: [] };

const client = new Client(info, { capabilities, versionNegotiation: { mode } });

/** Fills in every form, and notes where it came from. */
async function onInputRequest(request, context) {
  seen.asked.push([request.kind, request.params.message, context.delivery]);
  return { action: "accept", content: { name: `Kim ${seen.asked.length}` } };
}

async function called(session, name, args) {
  const execution = await session.callTool(name, args, { task: { preference: "prefer" } });
  const { outcome } = await execution.settle();
  return { kind: execution.kind ?? null, status: outcome.status, result: outcome.result ?? null, error: outcome.error?.message ?? null };
}

await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
const v2RequestFraming = { protocolVersion: "2026-07-28", clientInfo: info, clientCapabilities: capabilities };
const session = createTaskSessionFromClient(client, {
  endpointId: "baton",
  tools: { currentTool: (name) => tools.get(name) },
  onInputRequest,
  ...(mode === "legacy" ? {} : { rawDispatch, v2RequestFraming }),
});
seen.revision = client.getNegotiatedProtocolVersion();
seen.added = await called(session, "add_up", { numbers: [1, 2, 3] });
seen.lost = await called(session, "lose", {});
seen.packed = await called(session, "dispatch_goods", {});
seen.booked = await called(session, "book", {});
await session.close();
await client.close();
process.stdout.write(JSON.stringify(seen));

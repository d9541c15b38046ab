/** Sends task requests of the 2026 era, which the client's own codecs would reject. ext-tasks requires this of its host. */
export const rawDispatchTo = (url) => async ({ method, params }) => {
  const name = params.taskId ?? params.name;
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": method,
    ...(name === undefined ? {} : { "Mcp-Name": name }),
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const answer = await (await fetch(url, { method: "POST", headers, body })).json();
  return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
};

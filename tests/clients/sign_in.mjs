// Signs in with the official TypeScript client, calls, refreshes, and signs out.
//
//     node sign_in.mjs URL CLIENT_ID REDIRECT LATER
//
// LATER is an address that makes it two hours later. Prints the report as JSON.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

const [url, clientMetadataUrl, redirectUrl, later] = process.argv.slice(2);
const memory = {};
const provider = {
  redirectUrl,
  clientMetadataUrl,
  clientMetadata: { client_name: "test", redirect_uris: [redirectUrl], token_endpoint_auth_method: "none" },
  state: () => "a-state",
  clientInformation: () => memory.client,
  saveClientInformation: (client) => void (memory.client = client),
  tokens: () => memory.tokens,
  saveTokens: (tokens) => void (memory.tokens = tokens),
  codeVerifier: () => memory.verifier,
  saveCodeVerifier: (verifier) => void (memory.verifier = verifier),
  discoveryState: () => memory.discovery,
  saveDiscoveryState: (state) => void (memory.discovery = state),
  async redirectToAuthorization(address) {
    const answer = await fetch(address, { redirect: "manual" });
    const location = answer.headers.get("location");
    if (answer.status !== 302 || !location.startsWith(`${redirectUrl}?`)) throw new Error(`${answer.status} ${await answer.text()}`);
    memory.answer = new URL(location).searchParams;
  },
};

async function connected() {
  const client = new Client({ name: "test", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  await client.connect(transport).catch(async (error) => {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(memory.answer.get("code"));
    return null;
  });
  return client;
}

await connected();
const client = await connected();
const call = async () => (await client.callTool({ name: "fetch_order", arguments: { order_id: "A-17" } })).structuredContent;
const report = { call: await call() };
await fetch(later, { method: "POST" });
report.after = await call();
await client.close();
const { revocation_endpoint, token_endpoint } = memory.discovery.authorizationServerMetadata;
const post = (address, form) => fetch(address, { method: "POST", body: new URLSearchParams({ client_id: memory.client.client_id, ...form }) });
const token = memory.tokens.refresh_token;
// The SDK drops this member of an OpenID document.
await post(revocation_endpoint ?? token_endpoint.replace(/token$/, "revoke"), { token });
report.revoked = await (await post(token_endpoint, { refresh_token: token, grant_type: "refresh_token" })).json();
process.stdout.write(JSON.stringify(report));

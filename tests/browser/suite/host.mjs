// A host of MCP Apps: the extension's own AppBridge, in a page that shows the App in a frame as hosts do.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

// The policy that the extension's specification requires for a resource without `csp` (2026-01-26, Content Security Policy).
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'";

/** All messages in both directions, in order: {from: "host" | "app", message}. */
window.messages = [];
window.heard = { contexts: [], links: [], sizes: [] };

function tapped(transport) {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    window.messages.push({ from: "host", message: structuredClone(message) });
    return send(message, options);
  };
  return transport;
}

window.addEventListener("message", (event) => {
  if (event.source === document.querySelector("iframe")?.contentWindow) window.messages.push({ from: "app", message: event.data });
});

window.show = async ({ html, capabilities, context, watch }) => {
  const frame = document.createElement("iframe");
  frame.title = "App";
  // The strictest sandbox that a host can use: no origin, no forms, no dialogs, no windows.
  frame.setAttribute("sandbox", "allow-scripts");
  document.body.append(frame);
  const bridge = new AppBridge(null, { name: "test-host", version: "1.0.0" }, capabilities, { hostContext: context });
  bridge.oncalltool = (params) => window.callServer("tools/call", params);
  if (capabilities.serverResources) bridge.onreadresource = (params) => window.callServer("resources/read", params);
  bridge.onopenlink = async ({ url }) => { window.heard.links.push(url); return {}; };
  bridge.onupdatemodelcontext = async (params) => { window.heard.contexts.push(params); return {}; };
  bridge.onsizechange = ({ height }) => {
    window.heard.sizes.push(height);
    if (height) frame.style.height = `${height}px`;
  };
  const ready = new Promise((resolve) => { bridge.oninitialized = resolve; });
  await bridge.connect(tapped(new PostMessageTransport(frame.contentWindow, frame.contentWindow)));
  frame.srcdoc = html.replace("<head>", () => `<head><meta http-equiv="Content-Security-Policy" content="${POLICY}"><script>${watch}</script>`);
  await ready;
  window.bridge = bridge;
};

// ---- The server

/** An error with a message for the user. `status` is the HTTP status, or 0. */
class Refused extends Error {
	constructor(message, status = 0) {
		super(message);
		this.status = status;
	}
}

const UNREACHABLE = "The server cannot be reached.";
const CUT = "The connection was cut. The call may have been made: look at the task.";
const CREDENTIALS = "baton-credentials";
const SIGN_IN = "baton-sign-in";
const http = {
	header: null,

	/** Stored for this tab only, if storage is enabled. */
	keep(header) {
		this.header = header;
		try {
			sessionStorage.setItem(CREDENTIALS, JSON.stringify(header));
			if (!header) sessionStorage.removeItem(CREDENTIALS);
		} catch {
			// Without storage, they last until the user leaves the page.
		}
	},

	restore() {
		try {
			this.header = JSON.parse(sessionStorage.getItem(CREDENTIALS));
		} catch {
			this.header = null;
		}
	},

	async send(method, params, { name, headers = {}, extensions = {}, progress } = {}) {
		const meta = {
			...params._meta,
			[`${META}protocolVersion`]: "2026-07-28",
			[`${META}clientInfo`]: PAGE,
			[`${META}clientCapabilities`]: { extensions },
			...(progress ? { progressToken: newId("progress") } : {}),
		};
		const named = name === undefined ? {} : { "Mcp-Name": headerValue(name) };
		return this.post(method, { ...params, _meta: meta }, { "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, ...named, ...headers }, progress);
	},

	/** A request of the 2025 era. Only this era can list tasks. */
	async sendOlder(method, params) {
		return this.post(method, params, { "MCP-Protocol-Version": "2025-11-25" });
	},

	async post(method, params, headers, progress) {
		const body = { jsonrpc: "2.0", id: newId("request"), method, params };
		return this.fetch("mcp", { Accept: "application/json, text/event-stream", ...headers }, body, async (answer) => {
			const streamed = (answer.headers.get("content-type") ?? "").startsWith("text/event-stream");
			const message = streamed ? await lastMessage(answer, progress) : await whole(answer);
			return outcome(message, answer.status);
		});
	},

	/** A request to the approvals API, which is beside the MCP endpoint. */
	async approvals(path, body) {
		return this.fetch(`approvals${path}`, {}, body, async (answer) => {
			const message = await whole(answer);
			if (answer.ok) return message;
			if (typeof message?.error !== "string") return outcome(message, answer.status);
			// Other credentials do not help a requester, so this is no 403 for the page.
			throw new Refused(message.error, answer.status === 403 ? 0 : answer.status);
		});
	},

	async fetch(path, headers, body, read) {
		let answer;
		const sent = this.header;
		try {
			const own = sent ? { [sent.name]: sent.value } : {};
			answer = await fetch(path, {
				method: body ? "POST" : "GET",
				headers: { ...(body ? { "Content-Type": "application/json" } : {}), ...headers, ...own },
				body: body && JSON.stringify(body),
				credentials: "omit",
			});
			// Another request may have renewed the token in the meantime.
			if (answer.status === 401 && (this.header !== sent || await signIn.renew())) return await this.fetch(path, headers, body, read);
			return await read(answer);
		} catch (error) {
			if (error instanceof Refused) throw error;
			throw new Refused(answer ? CUT : UNREACHABLE);
		}
	},
};

/** A header's value, in base64 if it is not printable ASCII (MCP 2026-07-28, Streamable HTTP). */
function headerValue(value) {
	const text = String(value);
	if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?/i.test(text)) return text;
	return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`;
}

async function whole(answer) {
	const text = await answer.text();
	try {
		return parse(text);
	} catch {
		throw new Refused(`The server answered ${answer.status}.`, answer.status);
	}
}

async function lastMessage(answer, progress) {
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	let last = null;
	for (;;) {
		const { value, done } = await reader.read();
		if (done) break;
		const events = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
		rest = events.pop();
		for (const event of events) {
			const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
			if (!data) continue;
			const message = parse(data);
			if (message.method === "notifications/progress") progress?.(message.params);
			else if (!message.method) last = message;
		}
	}
	if (!last) throw new Refused(CUT);
	return last;
}

function outcome(message, status) {
	if (isObject(message?.error)) throw new Refused(message.error.message || "The server refused the request.", status);
	if (isObject(message?.result)) return message.result;
	// Errors of API Gateway: {"message": "Forbidden"}
	throw new Refused(`The server answered ${status}${typeof message?.message === "string" ? `: ${message.message}` : ""}.`, status);
}

/** The page's side of MCP Apps: JSON-RPC by postMessage (ext-apps, specification 2026-01-26). */
const host = {
	waiting: new Map(),
	capabilities: {},
	handlers: {},

	post(message) {
		window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
	},

	notify(method, params) {
		this.post({ method, params });
	},

	request(method, params) {
		const id = ++ids;
		return new Promise((resolve, reject) => {
			this.waiting.set(id, { resolve, reject });
			this.post({ id, method, params });
		});
	},

	listen() {
		window.addEventListener("message", (event) => {
			const message = event.data;
			if (event.source !== window.parent || !isObject(message) || message.jsonrpc !== "2.0") return;
			if (typeof message.method === "string") this.take(message);
			else this.settle(message);
		});
	},

	settle({ id, result, error }) {
		const waiting = this.waiting.get(id);
		this.waiting.delete(id);
		if (error) waiting?.reject(new Refused(error.message || "The host refused the request."));
		else waiting?.resolve(result);
	},

	take(message) {
		const handler = this.handlers[message.method];
		const result = handler?.(message.params ?? {}) ?? {};
		if (message.id === undefined) return;
		this.post(handler ? { id: message.id, result } : { id: message.id, error: { code: -32601, message: `Method not found: ${message.method}` } });
	},
};

const server = {
	info: null,
	tools: null,

	/** A tool's result. A failure of the tool is a result with isError. */
	async call(name, args, { schema, meta, progress } = {}) {
		const params = { name, arguments: args, ...(meta ? { _meta: meta } : {}) };
		if (IN_HOST) return host.request("tools/call", params);
		return http.send("tools/call", params, { name, headers: mirrored(schema, args), progress });
	},

	async read(uri) {
		const result = IN_HOST ? await host.request("resources/read", { uri }) : await http.send("resources/read", { uri }, { name: uri });
		return result.contents?.[0] ?? {};
	},

	canRead: () => !IN_HOST || Boolean(host.capabilities.serverResources),
	canCall: () => !IN_HOST || Boolean(host.capabilities.serverTools && state.workflowTool),

	async task(method, params) {
		return http.send(`tasks/${method}`, params, { name: params.taskId, extensions: { [`${META}tasks`]: {} } });
	},

	/** The workflow tools, by name. Only the console can list them, and it does so once. */
	async workflowTools() {
		if (this.tools) return this.tools;
		const found = new Set();
		let cursor;
		do {
			const page = await http.send("tools/list", cursor ? { cursor } : {}, { extensions: { [`${META}ui`]: { mimeTypes: ["text/html;profile=mcp-app"] } } });
			for (const tool of page.tools) if (tool._meta?.ui?.resourceUri === RESOURCE) found.add(tool.name);
			cursor = page.nextCursor;
		} while (cursor);
		this.tools = found;
		return found;
	},
};

/** Parameters that are also sent as headers (`x-mcp-header`). */
function mirrored(schema, args, headers = {}) {
	for (const [name, property] of Object.entries(schema?.properties ?? {})) {
		const value = args?.[name];
		if (value === undefined || value === null || !isObject(property)) continue;
		if (typeof property["x-mcp-header"] === "string") headers[`Mcp-Param-${property["x-mcp-header"]}`] = headerValue(isRaw(value) ? value.rawJSON : value);
		if (isObject(value)) mirrored(property, value, headers);
	}
	return headers;
}

const textOf = (result) => (result?.content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n\n");

/** The structured result of a workflow tool. Throws if it is an error. */
async function callWorkflowTool(name, args, options) {
	const result = await server.call(name, args, options);
	if (result.isError) throw new Refused(textOf(result) || "The server could not do it.");
	if (result.resultType && result.resultType !== "complete") throw new Refused("The server asks a question that this page cannot answer. Continue with another client.");
	return result;
}

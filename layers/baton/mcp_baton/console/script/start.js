// ---- The console.

function follow({ focus } = {}) {
	const id = location.hash.slice(1);
	if (id === APPROVALS) return openApprovals();
	loadApprovals();
	if (id) return openTask({ id, name: state.tasks?.find((task) => task.task_id === id)?.name ?? state.named });
	return openList({ focus });
}

async function start() {
	state.view = "start";
	draw();
	try {
		await signIn.finish();
	} catch (error) {
		askForCredentials();
		state.notice = { text: error instanceof Refused ? error.message : UNREACHABLE, bad: true };
		return draw({ focus: "heading" });
	}
	try {
		const about = await http.send("server/discover", {});
		server.info = about.serverInfo ?? about._meta?.[`${META}serverInfo`] ?? null;
	} catch (error) {
		if (needsCredentials(error)) return askForCredentials(error);
	}
	return follow({ focus: "heading" });
}

function startConsole() {
	http.restore();
	window.addEventListener("hashchange", () => { if (state.view !== "connect") follow(); });
	start();
}

// ---- The App.

function applyHostContext(context) {
	const root = document.documentElement;
	if (context.theme === "light" || context.theme === "dark") root.dataset.theme = context.theme;
	for (const [name, value] of Object.entries(context.styles?.variables ?? {})) {
		if (/^--[a-z0-9-]+$/.test(name) && typeof value === "string" && !/url\(/i.test(value)) root.style.setProperty(name, value);
	}
	const tool = context.toolInfo?.tool;
	if (tool?.name) state.workflowTool = tool.name;
}

function reportSize() {
	let before = 0;
	const report = () => {
		const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
		if (height !== before) host.notify("ui/notifications/size-changed", { height });
		before = height;
	};
	new ResizeObserver(report).observe(document.documentElement);
}

/** The result of the tool for which the host opened this page. */
async function showResult(result) {
	state.starting = null;
	const structured = result.structuredContent;
	if (result.isError || !isObject(structured)) {
		Object.assign(state, { view: "start", starting: textOf(result) || "There is no task." });
		return draw();
	}
	if (Array.isArray(structured.tasks)) {
		Object.assign(state, { view: "list", tasks: structured.tasks.map(listed) });
		draw();
		return poll.plan();
	}
	const board = boardOf(structured);
	Object.assign(state, { view: "board", board, current: { id: board.task_id, name: board.workflowTool }, panel: null, forms: new Map(), opened: new Set() });
	draw();
	// The model's result has no forms. The workflow tool returns them.
	if (board.task_id && board.workflowTool && !structured.board && server.canCall()) await loadBoard();
	else poll.plan();
}

async function startApp() {
	document.documentElement.classList.add("in-host");
	state.starting = "Waiting for the tool…";
	draw();
	host.handlers = {
		"ui/notifications/tool-input": (params) => {
			state.starting = params.arguments?.task_id ? "Reading the task…" : "The workflow is running…";
			if (state.view === "start") draw();
		},
		"ui/notifications/tool-result": (params) => { showResult(params); },
		"ui/notifications/tool-cancelled": (params) => {
			Object.assign(state, { view: "start", starting: `The call was cancelled${params.reason ? `: ${params.reason}` : ""}.` });
			draw();
		},
		"ui/notifications/host-context-changed": (params) => { applyHostContext(params); draw(); },
		"ui/resource-teardown": () => { poll.stop(); state.busy = "gone"; return {}; },
		ping: () => ({}),
	};
	host.listen();
	const hello = await host.request("ui/initialize", { protocolVersion: "2026-01-26", appInfo: PAGE, appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] } });
	host.capabilities = hello.hostCapabilities ?? {};
	applyHostContext(hello.hostContext ?? {});
	host.notify("ui/notifications/initialized", {});
	reportSize();
	draw();
}

if (IN_HOST) startApp();
else startConsole();

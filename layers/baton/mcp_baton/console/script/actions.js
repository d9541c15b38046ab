// ---- Actions

const reload = () => state.view === APPROVALS ? loadApprovals() : loadBoard();

/** Runs one action at a time, then reads the task or the approvals again and tells the host's model. */
async function act(name, work) {
	if (state.busy) return;
	state.busy = name;
	state.notice = null;
	state.progress = null;
	poll.stop();
	draw();
	try {
		const done = await work();
		state.busy = "";
		state.panel = null;
		state.notice = { text: done.text, bad: Boolean(done.bad) };
		await reload();
		draw({ focus: "heading" });
		say(`${done.text} ${state.board ? stateOf(state.board) : ""}`);
		await tellModel(done.text);
	} catch (error) {
		state.busy = "";
		if (needsCredentials(error)) return askForCredentials(error);
		// A form shows its error beside the button. Other actions use the notice.
		if (name === "form") {
			draw();
			await reload();
			throw error;
		}
		tell(error.message, true);
		await reload();
	} finally {
		state.busy = "";
		state.progress = null;
		if (state.view === "board" || state.view === APPROVALS) draw();
		poll.plan();
	}
}

function progress(params) {
	if (!params.message) return;
	state.progress = params.message;
	draw();
	say(params.message);
}

async function goOn(board, secrets) {
	const result = await callWorkflowTool(board.workflowTool, { ...secrets, task_id: board.task_id }, { progress });
	state.forms.delete("go");
	const { message, warning, pause_reason: pause } = result.structuredContent ?? {};
	return { text: [refusalOf(pause) ?? firstLine(message ?? textOf(result)), warning].filter(Boolean).join(" "), bad: remedyOf(pause) === "none" };
}

/** Why a call without an approval was not made. The server's own text is for a model. */
const refusalOf = (pause) => needsApproval(pause) ? `This call ${remedyOf(pause) === "none" ? "was " : ""}${shortForm(pause)}: ${pause.message}` : null;

const firstLine = (text) => (text || "Done.").split("\n")[0];

async function makeCall(board, call, filled, proceed) {
	const own = ownsTask(call);
	const id = (own ? call.task_id : call.arguments?.task_id) ?? board.task_id;
	const result = await server.call(call.tool, own ? filled : { ...filled, task_id: id }, {
		schema: call.schema, progress, meta: own ? { "mcp-baton/task_id": id } : undefined,
	});
	if (result.isError) throw new Refused(refusalOf(result.structuredContent?.approval) ?? result.content?.[0]?.text ?? "The call failed.");
	const text = firstLine(result.content?.findLast?.((block) => block.type === "text")?.text).replace(/ Next: call [^]*$/, "").replace(/ Call \S+ with \{[^]*$/, "");
	if (!proceed) return { text };
	await loadBoard();
	if (OVER.has(state.board.status)) return { text };
	return goOn(board);
}

async function end(board, action, result) {
	const how = action === "cancel" ? "cancelled" : "completed";
	if (IN_HOST) {
		const args = { task_id: board.task_id, task_action: action, ...(action === "complete" && result !== undefined ? { task_result: result } : {}) };
		await callWorkflowTool(board.workflowTool, args);
	} else {
		await http.sendOlder("tasks/cancel", { taskId: board.task_id, ...(action === "complete" ? { result: result ?? {} } : {}) });
	}
	return { text: `The task was ${how}.` };
}

async function tellModel(text) {
	if (!IN_HOST || !host.capabilities.updateModelContext || !state.board) return;
	const board = state.board;
	const steps = board.steps.map((step) => `${step.name}: ${step.status}`).join(", ");
	const words = `The user acted on task ${board.task_id} of the workflow ${board.name} in its page. ${text} The task is ${board.status}${board.pauses.length ? `, paused (${board.pauses.map((pause) => pause.type).join(", ")})` : ""}. Steps: ${steps}.`;
	try {
		await host.request("ui/update-model-context", {
			content: [{ type: "text", text: words }],
			structuredContent: { task_id: board.task_id, workflow: board.name, task_status: board.status, steps: board.steps.map(({ name, status }) => ({ name, status })) },
		});
	} catch {
		// The host does not accept it. The model reads the task with its next call.
	}
}

// ---- Polling

const FIRST_MS = 1000;
const LAST_MS = 15000;
const LONGEST_WAIT_MS = 900000;
const poll = {
	timer: 0,
	wait: FIRST_MS,

	wanted() {
		if (document.hidden || state.busy || !server.canCall()) return false;
		if (state.view === APPROVALS) return !state.panel;
		if (state.view === "list") return (state.tasks ?? []).some((task) => task.kind === "working");
		return state.view === "board" && state.board !== null && (kindOf(state.board) === "running" || state.board.pauses.some(waits));
	},

	/** A task that waits is read after half of the time that is left. */
	delay() {
		const ends = (state.view === "board" ? state.board.pauses : []).filter(waits).map((pause) => Date.parse(pause.until));
		return ends.length ? Math.min(Math.max((Math.min(...ends) - Date.now()) / 2, LAST_MS), LONGEST_WAIT_MS) : this.wait;
	},

	plan() {
		clearTimeout(this.timer);
		if (this.wanted()) this.timer = setTimeout(() => this.look(), this.delay());
		else this.wait = FIRST_MS;
	},

	async look() {
		const wait = this.wait;
		const changed = await (state.view === "list" ? loadList() : reload());
		this.wait = changed ? FIRST_MS : Math.min(wait * 1.6, LAST_MS);
		this.plan();
	},

	stop() {
		clearTimeout(this.timer);
		this.wait = FIRST_MS;
	},
};

document.addEventListener("visibilitychange", () => {
	poll.wait = FIRST_MS;
	poll.plan();
});

// Update the ages.
setInterval(() => {
	if (document.hidden) return;
	for (const time of document.querySelectorAll("time")) {
		const words = relative(time.dateTime);
		if (time.textContent !== words) time.textContent = words;
	}
}, 20000);

// ---- Tasks

const OVER = new Set(["completed", "failed", "cancelled"]);
const settled = (step) => step.status === "completed" || step.status === "skipped";

function listed(entry) {
	const pause = { type: entry.pause_type, for: entry.waits_for, until: entry.waits_until };
	return { ...entry, pause, name: entry.workflow ?? entry.tool ?? "Task", kind: entry.pause_type && !OVER.has(entry.status) ? "paused" : entry.status };
}

function listedByTasks(task) {
	const meta = task._meta ?? {};
	return listed({
		task_id: task.taskId, status: task.status, status_message: task.statusMessage, created_at: task.createdAt, updated_at: task.lastUpdatedAt,
		workflow: meta.workflow, tool: meta.tool, step: meta.step, pause_type: meta.pause_reason?.type,
		waits_for: meta.pause_reason?.for, waits_until: meta.pause_reason?.over ? undefined : meta.pause_reason?.until,
		stopped_steps: meta.pause_reasons?.length,
	});
}

async function allTasks() {
	const name = IN_HOST ? state.workflowTool : [...(await server.workflowTools())][0];
	if (name) return (await callWorkflowTool(name, { task_action: "list" })).structuredContent.tasks.map(listed);
	return (await http.sendOlder("tasks/list", {})).tasks.map(listedByTasks);
}

/** The workflow's tool if the host does not name it: the last sentence of a result does, after the calls of steps. */
function workflowToolIn({ message, task_id: id, running_until: until, next }) {
	if (until) return next?.[0]?.tool;
	const calls = String(message).matchAll(/\bcall (\S+) with (\{"task_id": .*\}) to (?:let the server continue|finish)\./gi);
	return [...calls].findLast(([, , args]) => args.includes(`"${id}"`))?.[1];
}

/** A board from the workflow's tool. */
function boardOf(structured) {
	const board = structured.board ?? {};
	state.workflowTool ??= board.workflow_tool ?? workflowToolIn(structured);
	const task = board.task ?? {};
	const steps = board.steps ?? (structured.steps ?? []).map((step) => ({ ...step, result: structured.results?.[step.name] }));
	return {
		name: board.workflow ?? board.workflow_tool ?? state.workflowTool ?? "Workflow",
		workflowTool: board.workflow_tool ?? state.workflowTool,
		task_id: task.task_id ?? structured.task_id,
		status: task.status ?? structured.task_status ?? "working",
		message: task.status_message,
		created: task.created_at, updated: task.updated_at, expires: task.expires_at,
		steps,
		pauses: pausesOf(structured.board ? board.pauses ?? [board.pause] : structured.pause_reasons ?? [structured.pause_reason]),
		until: board.running_until ?? structured.running_until ?? null,
		suggestedTool: board.suggested_tool, calls: board.calls ?? [],
		can: board.can ?? {},
		secrets: board.secrets ?? [],
		warning: structured.warning,
		result: task.result, by: task.result_by,
		failure: task.error,
	};
}

/** A board from tasks/get, for a tool's task or for a workflow without a tool. */
function boardOfTask(task) {
	const meta = task._meta ?? {};
	const progress = meta["_workflow.progress"];
	const timings = meta["mcp-baton/timings"] ?? {};
	const elements = meta["mcp-baton/elements"] ?? {};
	const steps = (progress?.steps ?? []).map((step) => {
		const value = meta[`_workflow.result.${step.name}`];
		const shown = step.status === "failed" && isObject(value) ? { error: value.error } : { result: value };
		return { ...step, ...timings[step.name], ...shown, elements: elements[step.name], arguments: meta[`_workflow.call.${step.name}`] };
	});
	const over = OVER.has(task.status);
	return {
		name: progress?.goal?.split(":")[0] ?? state.named ?? "Task",
		task_id: task.taskId, status: task.status, message: task.statusMessage,
		created: task.createdAt, updated: task.lastUpdatedAt,
		steps, pauses: pausesOf(meta["_workflow.pause_reasons"] ?? [meta["_workflow.pause_reason"]]), until: null, calls: [], workflowTool: null,
		can: { go_on: false, complete: !over, cancel: !over },
		result: task.result, by: meta["mcp-baton/result_by"], failure: task.error,
	};
}

/** A tool's task in a host: no tool returns more about it than the list. */
function boardOfEntry(entry) {
	const live = !OVER.has(entry.status);
	return {
		name: entry.name, workflowTool: state.workflowTool, task_id: entry.task_id, status: entry.status, message: entry.status_message,
		created: entry.created_at, updated: entry.updated_at, steps: [], pauses: [], until: null, calls: [],
		can: { cancel: live }, alone: true,
	};
}

async function fetchBoard(task) {
	if (IN_HOST) {
		// Only a workflow tool accepts `task_action`. Another tool would run.
		if (task.entry && !task.entry.workflow) {
			const entry = (await allTasks()).find((one) => one.task_id === task.id);
			if (!entry) throw new Refused("The task is no longer among the newest 50.");
			return boardOfEntry(entry);
		}
		return show(task.name ?? state.workflowTool, task.id);
	}
	const workflowTools = await server.workflowTools();
	if (workflowTools.has(task.name)) return show(task.name, task.id);
	const found = await server.task("get", { taskId: task.id });
	const name = found._meta?.["_workflow.progress"]?.goal?.split(":")[0];
	// A link names only the task. Its workflow is known now.
	return workflowTools.has(name) ? show(name, task.id) : boardOfTask(found);
}

async function show(name, id) {
	return boardOf((await callWorkflowTool(name, { task_id: id, task_action: "show" })).structuredContent);
}

function kindOf(board) {
	if (OVER.has(board.status) || board.status === "input_required") return board.status;
	if (board.until) return "running";
	if (board.pauses.length) return "paused";
	return board.steps.length ? "working" : "running";
}

const KINDS = {
	completed: "Completed", failed: "Failed", cancelled: "Cancelled", paused: "Paused", running: "Running",
	working: "In progress", input_required: "Waiting for an answer", pending: "Not started", skipped: "Skipped",
};

/** What lets a paused workflow continue (workflow/pause.py, Remedy). The words are in present/pause_sentences.py. */
const remedyOf = (pause) => PAUSES.types[pause?.type]?.remedy;

/** Whether a person has to decide a call, or has denied it. */
const needsApproval = (pause) => ["decision", "none"].includes(remedyOf(pause));

/** Whether the task waits for a callback or a time. If the server continued, it would pause at the same step again. */
const waits = (pause) => remedyOf(pause) === "wait" && Boolean(pause.until);

/** The reasons of all stopped steps. After a wait, they have no `until`. */
const pausesOf = (pauses) => pauses.filter(Boolean).map((pause) => pause.over ? { ...pause, until: null } : pause);

const canContinue = (board) => board.can.go_on && !(board.pauses.length && board.pauses.every(waits));

function waitOf(pause) {
	if (!waits(pause)) return "its wait is over";
	return `waits ${pause.for === "callback" ? "for a callback " : ""}until ${moment(pause.until)}`;
}

const waitsFor = (pause) => ({ none: "denied", wait: waitOf(pause) })[remedyOf(pause)] ?? PAUSES.types[pause?.type]?.waits ?? "waits for the model";

function stateOf(board) {
	const kind = kindOf(board);
	return kind === "paused" ? `Paused: ${[...new Set(board.pauses.map(waitsFor))].join("; ")}` : KINDS[kind] ?? kind;
}

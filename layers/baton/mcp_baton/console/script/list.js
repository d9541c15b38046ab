// ---- The list.

const FILTERS = { all: "All", waiting: "Needs somebody", working: "In progress", completed: "Completed", failed: "Failed", cancelled: "Cancelled" };

function filtered(key) {
	if (key === "all") return state.tasks;
	const groupOf = ({ kind, pause, stopped_steps: stopped }) => waits(pause) && !stopped ? "working" : kind === "paused" || kind === "input_required" ? "waiting" : kind;
	return state.tasks.filter((task) => key === groupOf(task));
}

function statusLine(task) {
	if (task.kind === "paused") {
		const { pause, stopped_steps: stopped } = task;
		const more = !needsApproval(pause) && remedyOf(pause) !== "wait" && waitsFor(pause);
		return [`Paused${task.step ? ` at ${task.step}` : ""}: ${shortForm(pause)}`, more, stopped && `${stopped} steps have stopped`].filter(Boolean).join("; ");
	}
	if (task.status_message && task.kind !== "completed") return `${KINDS[task.kind]}: ${localized(task.status_message)}`;
	if (task.kind === "working" && task.step) return `In progress, at ${task.step}`;
	return KINDS[task.kind] ?? task.kind;
}

function listView() {
	const refresh = button(state.busy === "list" ? "Refreshing…" : "Refresh", "", () => loadList({ asked: true }), { "data-key": "refresh" });
	const head = el("div", { class: "head" }, heading("Tasks"), el("div", { class: "end" }, refresh));
	if (!state.tasks) return [head, notice(), el("p", { class: "muted", role: "status" }, "Loading…")];
	if (!state.tasks.length) {
		return [head, notice(), el("div", { class: "empty section" }, el("h2", {}, "No tasks yet"), el("p", {}, "A task appears here when a workflow is run, or a tool that runs in the background."))];
	}
	const filters = el("div", { class: "filters", role: "group", "aria-label": "Show tasks by status" }, Object.entries(FILTERS).map(([key, label]) => {
		const count = filtered(key).length;
		const choose = () => { state.filter = key; draw(); say(amount(count, "task")); };
		return count || key === state.filter ? el("button", { type: "button", "aria-pressed": String(key === state.filter), "data-key": `filter-${key}`, onclick: choose }, label, el("span", {}, String(count))) : null;
	}));
	const shown = filtered(state.filter);
	const rows = shown.map((task) => el("li", {}, taskRow(task)));
	return [head, notice(), filters, shown.length ? el("ul", { class: "tasks" }, rows) : el("div", { class: "empty" }, el("p", {}, "No task has this status.")),
		state.tasks.length >= 50 ? el("p", { class: "note" }, "These are the newest 50.") : null];
}

function taskRow(task) {
	const attributes = { class: "task", "data-key": `task-${task.task_id}` };
	const inside = [
		el("span", { class: `icon is-${task.kind}` }, icon(task.kind)),
		el("span", { class: "name" }, task.name),
		el("span", { class: "age" }, el("span", { class: "hidden" }, ", "), when(task.updated_at ?? task.created_at)),
		el("span", { class: "says" }, el("span", { class: "hidden" }, ", "), statusLine(task)),
		el("span", { class: "id mono", "aria-hidden": "true" }, task.task_id.slice(-6)),
	];
	if (!IN_HOST) return el("a", { ...attributes, href: `#${task.task_id}`, onclick: () => { state.named = task.name; } }, inside);
	return el("button", { ...attributes, type: "button", onclick: () => openTask({ id: task.task_id, name: task.name, entry: task }) }, inside);
}

async function loadList({ asked = false } = {}) {
	if (asked) {
		state.busy = "list";
		draw();
		if (!IN_HOST) loadApprovals();
	}
	let changed = true;
	try {
		const before = state.tasks;
		state.tasks = await allTasks();
		changed = !same(before, state.tasks);
		if (asked) say(`${amount(state.tasks.length, "task")}, refreshed.`);
	} catch (error) {
		if (needsCredentials(error)) return askForCredentials(error);
		state.notice = { text: error.message, bad: true };
		state.tasks ??= [];
		say(error.message);
	} finally {
		if (asked) state.busy = "";
		if (state.view === "list") {
			if (changed || asked) draw();
			poll.plan();
		}
	}
	return changed;
}

async function openList({ focus = "heading" } = {}) {
	poll.stop();
	Object.assign(state, { view: "list", board: null, current: null, panel: null, notice: null, forms: new Map() });
	draw({ focus });
	await loadList();
}

// ---- One task.

async function openTask(task) {
	poll.stop();
	Object.assign(state, { view: "board", current: task, panel: null, notice: null, opened: new Set(), forms: new Map() });
	if (state.board?.task_id !== task.id) state.board = null;
	draw({ focus: "heading" });
	await loadBoard();
	say(state.board ? `${state.board.name}: ${stateOf(state.board)}` : "");
}

async function loadBoard() {
	const task = state.current;
	try {
		const board = await fetchBoard(task);
		if (state.current !== task) return false;
		const changed = !same(board, state.board);
		state.board = board;
		if (!board.alone) task.name = board.workflowTool ?? task.name;
		if (changed) draw();
		return changed;
	} catch (error) {
		if (state.current !== task) return false;
		if (needsCredentials(error)) return askForCredentials(error);
		tell(error.message, true);
		return false;
	} finally {
		if (state.current === task) poll.plan();
	}
}

function boardView() {
	const board = state.board;
	const label = "← All tasks";
	const back = IN_HOST ? server.canCall() && button(label, "quiet back", () => openList()) : el("a", { class: "button quiet back", href: "#" }, label);
	if (!board) {
		const title = heading(state.current?.name ?? "Task");
		return [back, el("div", { class: "head" }, title), notice(), state.notice ? null : el("p", { class: "muted", role: "status" }, state.starting ?? "Loading…")];
	}
	const kind = kindOf(board);
	const head = el("div", { class: "head" }, heading(board.name), el("span", { class: `state is-${kind}` }, icon(kind), stateOf(board)), el("div", { class: "end" }, quietActions(board)));
	return [back, notice(), head, facts(board), meter(board, kind), panel(board), callout(board, kind), outcomeOf(board), stepsOf(board, kind)];
}

const fact = (name, value) => value ? el("div", {}, el("dt", {}, name), el("dd", {}, value)) : null;

function facts(board) {
	return el("dl", { class: "facts" },
		fact("Started", when(board.created)),
		fact("Updated", board.updated !== board.created && when(board.updated)),
		fact("Expires", when(board.expires)),
		fact("Result", board.by && "supplied by a client"),
		fact("Task", board.task_id && el("code", {}, board.task_id)));
}

function meter(board, kind) {
	if (!board.steps.length) return null;
	const done = board.steps.filter(settled).length;
	const skipped = board.steps.filter((step) => step.status === "skipped").length;
	const marks = board.steps.map((step) => el("i", { class: `is-${stepKind(board, step, kind)}` }));
	return el("div", {}, el("div", { class: "meter", "aria-hidden": "true" }, marks),
		el("p", { class: "hint" }, `${done} of ${amount(board.steps.length, "step")} done${skipped ? `, ${skipped} of them skipped` : ""}`));
}

/** A pending step is paused or running if it is the first open one; of parallel steps, several may have stopped. */
function stepKind(board, step, kind) {
	if (step.status !== "pending" || (kind !== "running" && kind !== "paused")) return step.status;
	const isNext = step === board.steps.find((one) => !settled(one)) || board.pauses.some((pause) => stepOf(pause) === step.name);
	return isNext ? kind : "pending";
}

function quietActions(board) {
	if (!server.canCall()) return [];
	const toggle = (name) => () => {
		state.panel = state.panel === name ? null : name;
		state.notice = null;
		draw({ focus: state.panel ? `panel-${name}` : name });
	};
	const open = (name) => ({ "data-key": name, "aria-expanded": state.panel === name ? "true" : "false" });
	return [
		button("Refresh", "quiet", () => loadBoard(), { "data-key": "refresh" }),
		board.can.complete ? button("Complete…", "", toggle("complete"), open("complete")) : null,
		board.can.cancel ? button("Cancel…", "danger", toggle("cancel"), open("cancel")) : null,
	];
}

/** A confirmation within the page, because hosts block the browser's dialogs. */
function panel(board) {
	if (!state.panel) return null;
	const close = () => {
		const name = state.panel;
		state.panel = null;
		draw({ focus: name });
	};
	const title = newId("panel");
	const card = (text, says, ...rest) => el("section", { class: "card", "aria-labelledby": title, onkeydown: (event) => { if (event.key === "Escape") close(); } },
		el("h2", { id: title, tabindex: "-1", "data-key": `panel-${state.panel}` }, text), el("p", { class: "muted" }, says), ...rest);
	if (state.panel === "cancel") {
		return card("Cancel this task?", "Completed steps stay completed. No other step runs. You cannot undo this.",
			el("div", { class: "buttons" }, button("Cancel the task", "danger primary", () => act("cancel", () => end(board, "cancel"))), button("Keep it", "", close)));
	}
	const schema = { properties: { result: { type: "object", title: "Result", description: 'A JSON object, such as {"note": "refunded by hand"}.' } } };
	const form = kept("complete", schema, () => argumentForm({
		schema, label: "Complete the task", beside: button("Not now", "", close),
		submit: ({ result }) => act("form", () => end(state.board, "complete", result)),
	}));
	return card("Complete this task?", "For work that was finished elsewhere. The remaining steps do not run.", form);
}

/** A form stays as long as its purpose, so that typed text is kept. */
function kept(name, what, make) {
	const key = compact(what);
	const found = state.forms.get(name);
	if (found?.key === key) return found.form;
	const form = make();
	state.forms.set(name, { key, form });
	return form;
}

/** Why the task is paused, and what a person can do. */
function callout(board, kind) {
	const plain = board.message && board.status !== "completed" ? el("p", { class: "note" }, localized(board.message)) : null;
	if (board.until) return el("section", { class: "card" }, el("h2", {}, "Running"), el("p", { class: "muted" }, "A run holds this task. This page follows it."));
	if (kind === "input_required") return el("section", { class: "card" }, el("h2", {}, "It waits for an answer"), el("p", { class: "note" }, board.message ?? "The client that started the task has to answer it."));
	const call = formCall(board);
	if ((kind !== "paused" && kind !== "working") || !(board.pauses.length || board.can.go_on)) return plain;
	const causes = board.pauses.length ? board.pauses.map(why) : [{ title: board.steps.every(settled) ? "Every step is done" : "Ready to continue", says: ["Nothing runs now."] }];
	const title = newId("why");
	const reasons = causes.map((cause, place) => el("div", { class: `why${cause.bad ? " bad" : ""}` }, el(place ? "h3" : "h2", place ? {} : { id: title }, icon(cause.bad ? "failed" : "paused"), cause.title),
		cause.quote ? quote(cause.quote) : null, (cause.says ?? []).map((text) => el("p", { class: "note" }, text)), cause.points?.length ? el("ul", {}, cause.points.map((text) => el("li", {}, text))) : null));
	if (board.warning) reasons.at(-1).append(el("p", { class: "note" }, board.warning));
	const card = el("section", { class: "card", "aria-labelledby": title }, reasons);
	if (!server.canCall()) return card;
	const asked = board.pauses.flatMap(questionsOf);
	const questions = [...new Map(asked.map((one) => [one.name, one])).values()];
	const asks = canContinue(board) && (board.secrets.length || questions.length);
	const go = (label, look) => canContinue(board) && !asks ? button(label, look, () => act("go", () => goOn(state.board)), { "data-key": "go-on" }) : "";
	if (call) card.append(el("h3", {}, "Next: ", el("code", {}, call.tool)), callForm(board, call, 0, go(AS_IT_IS, "")));
	else if (!asks && !(board.pauses.length && board.pauses.every((pause) => remedyOf(pause) === "none"))) card.append(el("div", { class: "buttons" }, go(state.busy === "go" ? "Going on…" : GO_ON, "primary")));
	const legend = call ? "Or continue without this call" : questions.length ? "Your answers" : "Secrets are not stored";
	if (asks) card.append(el("h3", { class: call ? "section" : "" }, legend), continueForm(board, questions, call ? AS_IT_IS : GO_ON));
	if (state.progress) card.append(el("p", { class: "note" }, state.progress));
	return card;
}

const GO_ON = "Let the server continue";
const AS_IT_IS = "Let the server try again without changes";
const SECRET = { type: "string", writeOnly: true, description: "Secret: it is not stored, so the server needs it again." };

/** The open questions of a workflow, as fields. A field has the name that the server's errors give its answer. */
function questionsOf(pause) {
	return (pause?.type === "answersRequired" ? pause.questions : []).map(({ name, question, schema }) =>
		({ name, field: `answer '${name}'`, property: { ...schema, title: question }, nullable: resolved(schema, schema).nullable }));
}

/** Continues with answers, and with secrets, which the server does not store: they are only in the fields until they are sent. */
function continueForm({ task_id: id, secrets }, questions, label) {
	const schema = {
		required: [...secrets, ...questions.filter((one) => !one.nullable).map((one) => one.field)],
		properties: Object.fromEntries([...secrets.map((name) => [name, SECRET]), ...questions.map((one) => [one.field, one.property])]),
	};
	const submit = (given) => act("form", () => goOn(state.board, {
		...Object.fromEntries(secrets.map((name) => [name, given[name]])),
		...(questions.length ? { answers: Object.fromEntries(questions.map((one) => [one.name, given[one.field] ?? null])) } : {}),
	}));
	return kept("go", [id, schema, label], () => argumentForm({ schema, label, submit }));
}

const quote = (text) => el("p", { class: "quote" }, typeof text === "string" ? text : compact(text));

/** The call of a step whose form is shown with the reason of a pause. If the server can continue, it suggests its own tool instead. */
function formCall({ calls, suggestedTool, workflowTool }) {
	return suggestedTool === workflowTool ? null : calls.find((call) => call.schema && call.tool === suggestedTool);
}

function callForm(board, call, place, beside) {
	const form = kept(`call-${place}`, [board.task_id, call], () => argumentForm({
		schema: call.schema, values: withoutTask(call), missing: call.missing, label: `Call ${call.tool}`, beside,
		then: canContinue(board) && !board.secrets.length && "Then let the server continue",
		submit: (filled, proceed) => act("form", () => makeCall(state.board, call, filled, proceed)),
	}));
	return el("div", {}, call.guidance ? el("p", { class: "note" }, call.guidance) : null, form);
}

/** A tool with its own parameter `task_id` keeps it. */
const ownsTask = (call) => Boolean(call.schema?.properties?.task_id);

function withoutTask(call) {
	const { task_id: id, ...rest } = call.arguments ?? {};
	return ownsTask(call) && id !== undefined ? { ...rest, task_id: id } : rest;
}

/** The result of an ended task; for a workflow, without the results of its steps. */
function outcomeOf(board) {
	if (board.failure) return section("Error", quote(board.failure.message ?? board.failure));
	if (!isObject(board.result)) return null;
	if (board.result.isError) return section("The tool failed", quote(textOf(board.result)));
	return section("Result", jsonView(board.result.content ? board.result.structuredContent ?? textOf(board.result) : board.result, "Result"));
}

function section(text, ...children) {
	const id = newId("section");
	return el("section", { class: "section", "aria-labelledby": id }, el("h2", { id }, text), children);
}

function stepsOf(board, kind) {
	if (!board.steps.length) return null;
	const items = board.steps.map((step, at) => {
		const planned = board.calls.find((call) => call.step === step.name);
		return stepItem(board, step, stepKind(board, step, kind), planned, at);
	});
	return section("Steps", el("ol", { class: "steps" }, items));
}

function stepItem(board, step, kind, planned, at) {
	const key = (name) => `${step.name}/${name}`;
	const resources = [step.resource ?? []].flat();
	const timed = step.ms !== undefined ? el("span", { class: "end", title: step.at ? new Date(step.at).toLocaleString() : null }, duration(step.ms)) : null;
	const progress = step.elements ? el("span", { class: "hint" }, `${step.elements.done} of ${amount(step.elements.total, "element")}`) : null;
	const body = el("div", {},
		el("div", { class: "step-head" }, el("h3", {}, step.name, el("span", { class: "hidden" }, `, ${(KINDS[kind] ?? kind).toLowerCase()}`)), step.tool ? el("code", {}, step.tool) : resources.map((uri) => el("code", {}, String(uri))), progress, timed));
	if (kind === "failed" && step.error !== undefined && !board.pauses.some((pause) => pause.error === step.error)) body.append(quote(step.error));
	const values = [
		step.wait || step.ask ? null : disclosure(planned ? "Planned call" : "Arguments", planned?.tool ? withoutTask(planned) : step.arguments, key("arguments"), `_workflow.call.${step.name}`),
		step.status === "completed" && (step.tool || step.ask || step.wait === "callback") ? disclosure(step.ask ? "Answer" : "Result", step.result, key("result"), `_workflow.result.${step.name}`) : null,
	];
	body.append(...values.filter(Boolean));
	if (planned?.schema && planned !== formCall(board) && server.canCall()) {
		const byHand = el("div");
		const summary = el("summary", { "data-key": key("form") }, el("span", {}, "Make this call by hand"));
		body.append(opening(el("details", { class: "value" }, summary, byHand), key("form"), () => { byHand.append(callForm(board, planned, at + 1)); }));
	}
	return el("li", { class: kind === "pending" ? "is-open-step" : "" }, el("span", { class: `icon is-${kind}` }, icon(kind)), body);
}

/** Fills a `details` when the user first opens it, and keeps it open when the task is drawn again. */
function opening(details, key, fill) {
	let filled = false;
	const toggled = () => {
		if (details.open && !filled) {
			filled = true;
			fill();
		}
		if (details.open) state.opened.add(key);
		else state.opened.delete(key);
	};
	details.open = state.opened.has(key);
	toggled();
	details.addEventListener("toggle", toggled);
	return details;
}

// ---- Approvals. Only the console has them: an App has no credentials for their API.

const APPROVALS = "approvals";
const DECISIONS = {
	approve: { verb: "Approve", look: "primary", done: "Approved", hint: "Kept with the decision." },
	deny: { verb: "Deny", look: "danger primary", done: "Denied", hint: "The requester and its model read it." },
};

function approvalsView() {
	const refresh = button(state.busy === APPROVALS ? "Refreshing…" : "Refresh", "", () => loadApprovals({ asked: true }), { "data-key": "refresh" });
	const head = el("div", { class: "head" }, heading("Approvals"), el("div", { class: "end" }, refresh));
	if (!state.approvals) return [head, notice(), state.notice ? null : el("p", { class: "muted", role: "status" }, "Loading…")];
	if (!state.approvals.length) {
		return [head, notice(), el("div", { class: "empty section" }, el("h2", {}, "No call waits for you"), el("p", {}, "A call appears here when it needs an approval of a group that you belong to."))];
	}
	return [head, notice(), state.approvals.map(approvalCard), state.more ? el("p", { class: "note" }, "These are the newest. Decide them to see older ones.") : null];
}

function approvalCard(record) {
	const title = newId("approval");
	return el("section", { class: "card", "aria-labelledby": title }, el("h2", { id: title }, record.message),
		el("dl", { class: "facts" },
			fact("Requested by", record.owner), fact("Requested", when(record.askedAt)), fact("Expires", when(record.expiresAt)), fact("Group", record.audience),
			fact("Workflow", record.workflow && [record.workflow, record.step && `, step ${record.step}`].filter(Boolean))),
		el("h3", {}, "Call: ", el("code", {}, record.tool)), jsonView(record.arguments, "Arguments"), decisionOn(record));
}

/** The buttons of a card, or the question after one was pressed: a new approval may move the buttons. */
function decisionOn(record) {
	const key = (name) => `${name}-${record.approvalId}`;
	const show = (panel, focus) => () => {
		Object.assign(state, { panel, notice: null });
		draw({ focus });
		poll.plan();
	};
	const chosen = Object.keys(DECISIONS).find((name) => state.panel === key(name));
	if (!chosen) {
		return el("div", { class: "buttons" }, Object.entries(DECISIONS).map(([name, { verb, look }]) =>
			button(`${verb}…`, look.replace("primary", ""), show(key(name), `panel-${key(name)}`), { "data-key": key(name) })));
	}
	const { verb, look, hint } = DECISIONS[chosen];
	const close = show(null, key(chosen));
	const schema = { properties: { reason: { type: "string", title: "Reason", maxLength: 500, description: hint } } };
	const form = kept(state.panel, schema, () => argumentForm({
		schema, look, label: `${verb} this call`, beside: button("Not now", "", close), submit: ({ reason }) => act("form", () => decide(record, chosen, reason)),
	}));
	return el("div", { onkeydown: (event) => { if (event.key === "Escape") close(); } }, el("h3", { class: "section", tabindex: "-1", "data-key": `panel-${state.panel}` }, `${verb} this call?`), form);
}

async function decide(record, decision, reason) {
	try {
		await http.approvals(`/${record.approvalId}`, { decision, digest: record.digest, reason, from: "page" });
	} catch (error) {
		// It has expired, or it was decided elsewhere: it is no longer in the list.
		if (error.status !== 409 && error.status !== 410) throw error;
		return { text: `${record.message} ${error.message}`, bad: true };
	}
	return { text: `${DECISIONS[decision].done}: ${record.message}` };
}

async function loadApprovals({ asked = false } = {}) {
	if (asked) {
		state.busy = APPROVALS;
		draw();
	}
	const before = [state.approvals, state.more];
	try {
		let page = await http.approvals("?state=waiting");
		// A page may be empty although more follow: it ends after a number of reads.
		while (!page.approvals.length && page.nextCursor) page = await http.approvals(`?state=waiting&cursor=${encodeURIComponent(page.nextCursor)}`);
		Object.assign(state, { approvals: page.approvals, more: Boolean(page.nextCursor) });
		if (asked) say(`${amount(page.approvals.length, "approval")}, refreshed.`);
	} catch (error) {
		// The other views show only a number, which is left out then.
		state.approvals = null;
		if (state.view === APPROVALS) {
			if (needsCredentials(error)) return askForCredentials(error);
			state.notice = { text: error.message, bad: true };
			say(error.message);
		}
	} finally {
		if (asked) state.busy = "";
		if (state.view === APPROVALS) poll.plan();
	}
	const changed = !same(before, [state.approvals, state.more]);
	if ((changed || asked) && state.view !== "connect") draw();
	return changed;
}

async function openApprovals() {
	poll.stop();
	Object.assign(state, { view: APPROVALS, board: null, current: null, panel: null, notice: null, forms: new Map() });
	draw({ focus: "heading" });
	await loadApprovals();
}

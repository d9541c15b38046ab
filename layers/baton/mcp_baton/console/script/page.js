// ---- The page

const state = {
	view: "start", filter: "all", tasks: null, approvals: null, more: false, board: null, current: null, workflowTool: null, named: null,
	opened: new Set(), panel: null, notice: null, busy: "", forms: new Map(),
};

const main = document.getElementById("main");
const live = document.getElementById("live");

/** For screen readers. A repeated text is read again. */
function say(text) {
	live.textContent = live.textContent === text ? `${text}\u00a0` : text;
}

function tell(text, bad = false) {
	state.notice = { text, bad };
	draw();
	say(text);
}

/** Draws the page and keeps the focus, open values and typed text. */
function draw({ focus } = {}) {
	const active = document.activeElement;
	const key = active?.getAttribute("data-key");
	main.replaceChildren(...VIEWS[state.view]().flat().filter(Boolean));
	main.setAttribute("aria-busy", state.busy ? "true" : "false");
	drawBar();
	const heading = main.querySelector("h1");
	document.title = `${heading?.textContent ?? "Tasks"} · ${server.info?.title ?? server.info?.name ?? "Baton"}`;
	if (focus === "heading") heading?.focus();
	else if (focus) main.querySelector(`[data-key="${focus}"]`)?.focus();
	else if (active !== document.body && main.contains(active)) active.focus({ preventScroll: true });
	else if (key) (document.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? heading)?.focus({ preventScroll: true });
}

function heading(text) {
	return el("h1", { tabindex: "-1", "data-key": "heading" }, text);
}

function notice() {
	if (!state.notice) return null;
	const { text, bad } = state.notice;
	return el("div", { class: `notice${bad ? " bad" : ""}` }, icon(bad ? "failed" : "completed"), el("p", {}, text),
		button("Dismiss", "quiet", () => { state.notice = null; draw({ focus: "heading" }); }, { "data-key": "dismiss" }));
}

function drawBar() {
	const bar = document.getElementById("bar");
	bar.hidden = IN_HOST;
	if (IN_HOST) return;
	const forget = http.header && state.view !== "connect" ? button("Disconnect", "quiet", disconnect, { "data-key": "disconnect" }) : null;
	const name = server.info?.title ?? server.info?.name;
	bar.replaceChildren(el("div", {}, el("span", { class: "mark" }, icon("mark"), "Baton"), name ? el("span", { class: "server" }, name) : null,
		state.view === "connect" ? null : lists(), forget ? el("span", { class: "end" }, forget) : null));
}

/** Forget the credentials and, with the page, all data and requests of this user. */
async function disconnect() {
	await signIn.end();
	http.keep(null);
	location.reload();
}

/** The links to both lists, with the number of the approvals that wait. */
function lists() {
	const to = (view, hash, ...label) => el("a", { class: "button quiet", href: hash, "data-key": `to-${view}`, "aria-current": state.view === view ? "page" : null }, label);
	const count = state.approvals?.length ? el("span", { class: "count" }, `${state.approvals.length}${state.more ? "+" : ""}`, el("span", { class: "hidden" }, " waiting")) : null;
	return el("nav", { "aria-label": "Lists" }, to("list", "#", "Tasks"), to("approvals", `#${APPROVALS}`, "Approvals", count));
}

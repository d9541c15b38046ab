// ---- JSON, shown

const ENTRIES = 60;
const LETTERS = 480;

function jsonView(value, label) {
	return el("div", { class: "json", role: "group", "aria-label": label }, jsonNode(value, 0));
}

function jsonNode(value, depth) {
	if (isRaw(value)) return el("span", { class: "n" }, value.rawJSON);
	if (typeof value === "string") return textNode(value);
	if (typeof value !== "object" || value === null) return el("span", { class: "n" }, String(value));
	return containerNode(value, depth);
}

function textNode(value) {
	const node = el("span", { class: "s" });
	if (value.length > LETTERS + 80) {
		const more = textButton(`${value.length - LETTERS} more characters`, () => { node.replaceChildren(quoted(value)); });
		node.append(quoted(value.slice(0, LETTERS)).slice(0, -1), "… ", more);
		return node;
	}
	const url = /^https?:\/\/\S+$/.test(value) ? link(value) : null;
	if (url) node.append('"', url, '"');
	else node.append(quoted(value));
	return node;
}

// Keep line breaks.
const quoted = (text) => visible(JSON.stringify(text)).replace(/(?<!\\)((?:\\\\)*)\\n/g, "$1\n");

function link(address) {
	if (!IN_HOST) return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, address);
	if (!host.capabilities.openLinks) return null;
	return textButton(address, () => host.request("ui/open-link", { url: address }).catch((error) => tell(error.message, true)));
}

function containerNode(value, depth) {
	const list = Array.isArray(value);
	const entries = list ? value.map((item) => [null, item]) : Object.entries(value);
	const [open, close] = list ? ["[", "]"] : ["{", "}"];
	if (!entries.length) return el("span", { class: "p" }, open + close);
	if (depth > 0 && compact(value).length < 72) return el("span", {}, compact(value));
	const rows = el("span", { class: "in" });
	const add = (from) => {
		entries.slice(from, from + ENTRIES).forEach(([name, item], place) => {
			const key = name === null ? null : [el("span", { class: "k" }, JSON.stringify(name)), ": "];
			rows.append(el("span", { class: "row" }, key, jsonNode(item, depth + 1), from + place < entries.length - 1 ? "," : ""));
		});
		const left = entries.length - from - ENTRIES;
		if (left > 0) {
			const more = textButton(`${left} more`, () => { more.remove(); add(from + ENTRIES); });
			rows.append(more);
		}
	};
	if (depth === 0) {
		add(0);
		return el("span", {}, el("span", { class: "p" }, open), rows, el("span", { class: "p" }, close));
	}
	const details = el("details", {}, el("summary", {}, el("span", { class: "p" }, open, el("span", { class: "closed" }, ` ${amount(entries.length, list ? "item" : "field")} ${close}`))), rows, el("span", { class: "p" }, close));
	const fill = () => { if (details.open && !rows.firstChild) add(0); };
	details.addEventListener("toggle", fill);
	if (depth < 2 && entries.length <= 12) {
		details.open = true;
		fill();
	}
	return details;
}

const VALUE_URI = /^baton:\/\/tasks\/([^/]+)\/([\w.%~-]+)$/;

/** Whether a URI names one of the task's values: `baton://tasks/<this task>/<its name>`. */
function isUriOf(uri, name) {
	const [, task, encoded] = VALUE_URI.exec(uri) ?? [];
	try {
		return task !== undefined && task === state.board?.task_id && decodeURIComponent(encoded) === name;
	} catch {
		return false;
	}
}

/** Whether a value is the placeholder of a long value with this name: its size and its URI. A tool may return the same form with any URI. */
const isElsewhere = (value, name) => isObject(value) && value.bytes > compact(value).length && Object.keys(value).every((member) => member === "bytes" || (member === "uri" && isUriOf(value.uri, name)));

/** A value that the user can open; `name` is its task variable. */
function disclosure(label, value, key, name) {
	if (value === undefined) return null;
	if (isElsewhere(value, name)) return elsewhere(label, value);
	if (value === null || typeof value !== "object" || isRaw(value)) {
		const short = compact(value);
		if (short.length < 80) return el("p", { class: "note" }, `${label} `, el("code", {}, short));
	}
	const body = el("div");
	const text = compact(value);
	const summary = el("summary", { "data-key": key }, el("span", {}, label), el("span", { class: "preview", "aria-hidden": "true" }, text.length > 160 ? `${text.slice(0, 160)}…` : text));
	return opening(el("details", { class: "value" }, summary, body), key, () => { body.append(jsonView(value, label)); });
}

function elsewhere(label, value) {
	const box = el("div", { class: "note" }, `${label}: ${bytes(value.bytes)}`);
	if (!value.uri || !server.canRead()) return box;
	const load = async () => {
		try {
			const content = await server.read(value.uri);
			let read = content.text ?? content.blob;
			if (/json/.test(content.mimeType ?? "json")) read = parse(read);
			box.replaceChildren(`${label}:`, jsonView(read, label));
		} catch (error) {
			box.append(el("p", { class: "error" }, error.message));
		}
	};
	box.append(" ", textButton("Load", load, `Load ${label.toLowerCase()}`));
	return box;
}

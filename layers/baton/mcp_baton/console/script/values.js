// ---- JSON, shown

const SHOWN = 20000;

/** A value as JSON, with links. Line breaks in texts stay. */
function jsonView(value, label) {
	const text = visible(JSON.stringify(value, null, 2) ?? "").replace(/(?<!\\)((?:\\\\)*)\\n/g, "$1\n");
	const linked = (part) => part.split(/(https?:\/\/[^\s"\\]+)/).map((piece, place) => (place % 2 && link(piece)) || piece);
	const view = el("div", { class: "json", role: "group", "aria-label": label }, linked(text.slice(0, SHOWN)));
	if (text.length > SHOWN) view.append("… ", textButton(`Show all ${text.length} characters`, () => { view.replaceChildren(...linked(text)); }));
	return view;
}

function link(address) {
	if (!IN_HOST) return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, address);
	if (!host.capabilities.openLinks) return null;
	return textButton(address, () => host.request("ui/open-link", { url: address }).catch((error) => tell(error.message, true)));
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

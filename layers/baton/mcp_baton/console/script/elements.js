const IN_HOST = window.parent !== window;
const PAGE = { name: "baton-tasks", version: "1.0.0" };
const RESOURCE = "ui://baton/tasks";
const META = "io.modelcontextprotocol/";

// ---- Elements: values go in as text, never as markup

function el(tag, attributes = {}, ...children) {
	const node = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
		else node.setAttribute(name, value === true ? "" : String(value));
	}
	const shown = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
	node.append(...shown.map((child) => typeof child === "string" ? visible(child) : child));
	return node;
}

/** A text in which invisible characters and marks of writing direction are escaped, because they could disguise it. */
function visible(text) {
	return text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu, (character) => character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
}

const RING = { cx: 8, cy: 8, r: 6.25, stroke: "currentColor", "stroke-width": 1.5 };
const DISC = { cx: 8, cy: 8, r: 7, fill: "currentColor" };
const stroke = (d, more) => ["path", { d, "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round", ...more }];
const on = (d) => [["circle", DISC], stroke(d, { class: "ink" })];
const LINE = { stroke: "currentColor" };
const ICONS = {
	completed: on("M5 8.2 7.1 10.3 11 6"),
	failed: on("M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4"),
	paused: on("M6.3 5.5v5M9.7 5.5v5"),
	input_required: on("M8 4.8v3.6M8 11v.1"),
	running: [["circle", { ...RING, opacity: 0.25 }], stroke("M8 1.75A6.25 6.25 0 0 1 14.25 8", { ...LINE, class: "spin" })],
	working: [["circle", RING], ["circle", { cx: 8, cy: 8, r: 2.5, fill: "currentColor" }]],
	cancelled: [["circle", RING], stroke("M4.4 11.6l7.2-7.2", LINE)],
	skipped: [["circle", RING], stroke("M5.5 8h5", LINE)],
	pending: [["circle", { ...RING, "stroke-dasharray": "2.4 2.5" }]],
	mark: [stroke("M2.5 13.5l4-4M9.5 6.5l4-4", { ...LINE, "stroke-width": 2.2 }), stroke("M5.8 10.2l4.4-4.4", { ...LINE, "stroke-width": 3.6 })],
};

function icon(name) {
	const make = (tag, attributes, ...parts) => {
		const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
		for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
		node.append(...parts);
		return node;
	};
	return make("svg", { width: 16, height: 16, viewBox: "0 0 16 16", fill: "none", "aria-hidden": "true" }, ...(ICONS[name] ?? ICONS.pending).map(([tag, attributes]) => make(tag, attributes)));
}

function button(label, kind, onclick, more = {}) {
	return el("button", { type: "button", class: `button ${kind}`, onclick, ...more }, label);
}

const textButton = (label, onclick, name) => el("button", { type: "button", class: "link", onclick, "aria-label": name }, label);

let ids = 0;
const newId = (prefix) => `${prefix}-${++ids}`;

// ---- JSON

const isRaw = (value) => Boolean(JSON.isRawJSON?.(value));

function parse(text) {
	if (!JSON.rawJSON) return JSON.parse(text);
	return JSON.parse(text, (_, value, context) =>
		typeof value === "number" && context?.source && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source)
			? JSON.rawJSON(context.source)
			: value);
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !isRaw(value);
const compact = (value) => JSON.stringify(value) ?? "";
const same = (left, right) => compact(left) === compact(right);

// ---- Forms

const PLACEHOLDER = /^<(output|field|prompt arg|task variable|secret|missing|invalid)\b[^]*>$/;
const TO_FILL_IN = new Set(["missing", "invalid", "prompt arg", "secret"]);

/** A schema with resolved references and without "or null". */
function resolved(schema, root, depth = 0) {
	if (!isObject(schema) || depth > 8) return {};
	if (typeof schema.$ref === "string") {
		const { $ref, ...rest } = schema;
		const target = $ref.replace(/^#\//, "").split("/").reduce((node, part) => node?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
		return resolved({ ...target, ...rest }, root, depth + 1);
	}
	const { anyOf, oneOf, allOf, ...rest } = schema;
	if (allOf?.length === 1) return resolved({ ...allOf[0], ...rest }, root, depth + 1);
	const branches = anyOf ?? oneOf;
	if (branches) {
		const real = branches.map((branch) => resolved(branch, root, depth + 1)).filter((branch) => branch.type !== "null");
		if (real.length === 1) return resolved({ ...real[0], ...rest, nullable: true }, root, depth + 1);
		return schema;
	}
	if (Array.isArray(schema.type)) {
		const types = schema.type.filter((type) => type !== "null");
		return { ...schema, type: types.length === 1 ? types[0] : undefined, nullable: types.length < schema.type.length };
	}
	if ("const" in schema && !schema.enum) return { ...schema, enum: [schema.const] };
	return schema;
}

const LONG_TEXT = /summary|text|body|message|note|comment|description|reason|content|prompt/i;
const INPUTS = { date: "date", time: "time", "date-time": "datetime-local", email: "email", uri: "url", password: "password" };

/** A control: { node, read() }. `read` returns a value or undefined, or throws the problem. */
function control(name, schema, value, attributes) {
	const labels = (options, names = []) => options.map((option, place) => names[place] ?? (typeof option === "string" ? option : compact(option)));
	const items = schema.type === "array" && schema.items?.enum;
	if (items && items.length <= 24) return choices(attributes, value ?? [], items, labels(items, schema.items.enumNames));
	if (schema.enum) return choice(attributes, value, schema.enum, labels(schema.enum, schema.enumNames));
	if (schema.type === "boolean") return choice(attributes, value, [true, false], ["Yes", "No"]);
	if (schema.type === "integer" || schema.type === "number") return numeric(attributes, value, schema.type);
	if (schema.type === "string") return written(attributes, value ?? "", name, schema);
	return asJson(attributes, value, schema);
}

function written(attributes, value, name, schema) {
	const type = schema.writeOnly ? "password" : INPUTS[schema.format];
	const limits = { pattern: schema.pattern, minlength: schema.minLength, maxlength: schema.maxLength };
	const long = !type && (value.length > 60 || value.includes("\n") || (LONG_TEXT.test(name) && !(schema.maxLength < 80)));
	const node = long ? el("textarea", { rows: 3, ...limits, ...attributes }) : el("input", { type: type ?? "text", autocomplete: "off", step: /time/.test(type) ? 1 : null, ...limits, ...attributes });
	const local = type === "datetime-local";
	const at = new Date(local ? value || NaN : NaN);
	node.value = Number.isNaN(at.getTime()) ? value : new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
	return { node, read: () => {
		if (!node.checkValidity()) throw new Error(node.validationMessage);
		return local && node.value ? new Date(node.value).toISOString() : node.value || undefined;
	} };
}

function numeric(attributes, value, type) {
	const whole = type === "integer";
	const node = el("input", { type: "text", inputmode: whole ? "numeric" : "decimal", autocomplete: "off", ...attributes });
	node.value = value === undefined || value === null ? "" : compact(value);
	return { node, read: () => {
		const text = node.value.trim();
		if (!text) return undefined;
		if (!/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) || (whole && !Number.isInteger(Number(text)))) {
			throw new Error(whole ? "Write a whole number, such as 3." : "Write a number with a point, such as 19.90.");
		}
		return JSON.rawJSON && !Number.isSafeInteger(Number(text)) && /^-?[1-9]\d*$/.test(text) ? JSON.rawJSON(text) : Number(text);
	} };
}

function choice(attributes, value, options, labels) {
	const node = el("select", attributes, el("option", { value: "" }, "Choose…"), options.map((_, place) => el("option", { value: place }, labels[place])));
	const chosen = options.findIndex((option) => same(option, value));
	node.value = chosen < 0 ? "" : String(chosen);
	return { node, chosen: "Choose one.", read: () => node.value === "" ? undefined : options[Number(node.value)] };
}

function choices({ id, ...attributes }, value, options, labels) {
	const boxes = options.map((option) => {
		const box = el("input", { type: "checkbox", "aria-describedby": attributes["aria-describedby"] });
		box.checked = value.some((item) => same(item, option));
		return box;
	});
	const node = el("div", { class: "choice", id }, boxes.map((box, place) => el("label", { class: "check" }, box, labels[place])));
	return { node, chosen: "Choose at least one.", group: true, focus: boxes[0], read: () => {
		const found = options.filter((_, place) => boxes[place].checked);
		return found.length ? found : undefined;
	} };
}

function asJson(attributes, value, schema) {
	const text = value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
	const node = el("textarea", { class: "code", rows: Math.min(14, Math.max(3, text.split("\n").length)), spellcheck: "false", ...attributes });
	node.value = text;
	return { node, read: () => {
		if (!node.value.trim()) return undefined;
		try {
			return parse(node.value);
		} catch {
			throw new Error(`This is not JSON. ${{ array: 'Write a list, such as ["a", "b"].', object: 'Write an object, such as {"name": "value"}.' }[schema.type] ?? "A text needs quotation marks."}`);
		}
	} };
}

/** An argument: label, control, hint, and the place for an error. */
function field(name, given, { root, required, missing, value }) {
	const schema = { ...resolved(given, root) };
	if (schema.type === "array" && isObject(schema.items)) schema.items = resolved(schema.items, root);
	const kind = PLACEHOLDER.exec(typeof value === "string" ? value : "")?.[1];
	let fromServer = kind !== undefined && !TO_FILL_IN.has(kind);
	if (kind === "secret") schema.writeOnly = true;
	const id = newId("field");
	const fallback = schema.default ?? null;
	const hints = [schema.description, fallback === null ? null : `When left empty: ${typeof fallback === "string" ? fallback : compact(fallback)}`].filter(Boolean).join("\n");
	const described = `${hints ? `${id}-hint ` : ""}${id}-error`;
	const made = control(name, schema, kind ? undefined : value, { id, "aria-describedby": described, "aria-required": required && !fromServer ? "true" : null });
	const mark = missing ? el("small", { class: "missing" }, "Missing") : el("small", {}, required ? "Required" : "Optional");
	const label = [schema.title ?? name, " ", mark];
	const error = el("p", { class: "error", id: `${id}-error`, hidden: true });
	const body = el("div", {}, made.node);
	if (fromServer) {
		const replace = () => {
			fromServer = false;
			body.replaceChildren(made.node);
			target.focus();
		};
		body.replaceChildren(el("div", { class: "given" }, el("span", {}, "The server fills this in: ", el("code", {}, value)), textButton("Fill in another value", replace, `Fill in another value for ${name}`)));
	}
	const node = el(made.group ? "fieldset" : "div", { class: "field" }, made.group ? el("legend", {}, label) : el("label", { for: id }, label),
		hints ? el("p", { class: "hint", id: `${id}-hint` }, hints) : null, body, error);
	const target = made.focus ?? made.node;
	const show = (text) => {
		error.textContent = text ?? "";
		error.hidden = !text;
		if (text) target.setAttribute("aria-invalid", "true");
		else target.removeAttribute("aria-invalid");
		return !text;
	};
	made.node.addEventListener("input", () => show());
	const one = {
		name, node, asked: missing || (kind !== undefined && !fromServer), focus: () => target.focus(), refuse: show, value: undefined,
		check() {
			if (fromServer) {
				one.value = value;
				return show();
			}
			try {
				one.value = made.read();
			} catch (wrong) {
				return show(wrong.message);
			}
			return show(one.value === undefined && required ? made.chosen ?? "Fill this in." : null);
		},
	};
	return one;
}

/**
 * A form for the arguments of a call. `submit(arguments, proceed)` makes the call; its error is shown above the button.
 * If a value is missing or there are many arguments, arguments with a value are folded.
 */
function argumentForm({ schema, values = {}, missing = [], label, look = "primary", then, beside, submit }) {
	const needed = new Set([...(schema.required ?? []), ...missing]);
	const fields = Object.entries(schema.properties ?? {}).filter(([, property]) => isObject(property)).map(([name, property]) =>
		field(name, property, { root: property.$defs ? property : schema, required: needed.has(name), missing: missing.includes(name), value: values[name] }));
	const folded = missing.length || fields.length > 6 ? fields.filter((one) => !one.asked && (one.name in values || !needed.has(one.name))) : [];
	const fold = folded.length ? el("details", {}, el("summary", {}, amount(folded.length, "other argument")), el("div", {}, folded.map((one) => one.node))) : null;
	const failed = el("p", { class: "error", role: "alert", hidden: true });
	const proceed = el("input", { type: "checkbox" });
	proceed.checked = Boolean(then);
	const form = el("form", { novalidate: true }, fields.filter((one) => !folded.includes(one)).map((one) => one.node), fold,
		then ? el("label", { class: "check" }, proceed, then) : null, failed, el("div", { class: "buttons" }, button(label, look, () => send()), beside));
	// Hosts may forbid the page's frame to submit forms. Then there is no event.
	form.addEventListener("submit", (event) => event.preventDefault());
	form.addEventListener("keydown", (event) => {
		if (event.key === "Enter" && event.target.matches("input") && !event.isComposing) {
			event.preventDefault();
			send();
		}
	});
	async function send() {
		if (state.busy) return;
		failed.hidden = true;
		const wrong = fields.filter((one) => !one.check());
		if (wrong.length) {
			if (folded.includes(wrong[0])) fold.open = true;
			wrong[0].focus();
			say(wrong.length === 1 ? "One field needs your attention." : `${wrong.length} fields need your attention.`);
			return;
		}
		try {
			await submit(Object.fromEntries(fields.filter((one) => one.value !== undefined).map((one) => [one.name, one.value])), proceed.checked);
		} catch (error) {
			const refused = fields.filter((one) => error.message.includes(one.name) && one.name.startsWith("answer "));
			refused.forEach((one) => one.refuse(error.message));
			if (refused.length) return refused[0].focus();
			failed.textContent = error.message;
			failed.hidden = false;
		}
	}
	return form;
}

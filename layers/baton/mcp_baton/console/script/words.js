// ---- Words

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "always" });

/** "3 minutes ago", "in 2 hours". */
function relative(text) {
	const seconds = (Date.parse(text) - Date.now()) / 1000;
	const size = Math.abs(seconds);
	if (size < 60) return seconds > 0 ? "in less than a minute" : "just now";
	const [unit, per] = size < 5400 ? ["minute", 60] : size < 129600 ? ["hour", 3600] : ["day", 86400];
	return RELATIVE.format(Math.trunc(seconds / per), unit);
}

/** A time in the viewer's time zone: "Thursday 14:00"; a later week has a date. */
function moment(text) {
	const at = new Date(text), clock = { hour: "2-digit", minute: "2-digit" };
	const day = Math.abs(at - Date.now()) < 6 * 86400000 ? { weekday: "long" } : { day: "numeric", month: "long", year: "numeric" };
	return `${new Intl.DateTimeFormat("en-GB", day).format(at)} ${new Intl.DateTimeFormat("en-GB", clock).format(at)}`;
}

/** A status message, with its times in the viewer's time zone. */
const localized = (message) => message.replace(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, moment);

const amount = (number, unit) => `${number} ${unit}${number === 1 ? "" : "s"}`;

function duration(ms) {
	if (!(ms >= 1)) return "< 1 ms";
	if (ms < 1000) return `${Math.round(ms)} ms`;
	return ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60000).toFixed(1)} min`;
}

const bytes = (count) => count < 1000 ? amount(count, "byte") : count < 1e6 ? `${(count / 1000).toFixed(1)} KB` : `${(count / 1e6).toFixed(1)} MB`;

function when(text) {
	const at = new Date(text ?? NaN);
	return Number.isNaN(at.getTime()) ? "" : el("time", { datetime: at.toISOString(), title: at.toLocaleString() }, relative(text));
}

const listOf = (names) => names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/** The pause reasons that the server knows (workflow/pause.py), and the members that name a reason's step. */
const PAUSES = { /* the pause reasons */ };

/** A short form of a reason: the first template whose members all have values. */
function shortForm(pause) {
	if (remedyOf(pause) === "wait") return waitOf(pause);
	const names = (template) => [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
	const templates = PAUSES.types[pause.type]?.short ?? ["it stopped"];
	const template = templates.find((one) => names(one).every((name) => pause[name]?.length ?? pause[name]));
	return template.replace(/\{(\w+)\}/g, (_, name) => Array.isArray(pause[name]) ? listOf(pause[name]) : pause[name]);
}

const ADVICE = {
	values: "No earlier step provides this. Fill it in, or make the call of an earlier step that provides it.",
	server: "Nothing failed. The server can continue where it stopped.",
	decision: ({ audience, expiresAt }) => `A person of the group ${audience} can decide this until ${new Date(expiresAt).toLocaleString()}. After the decision, let the server continue.`,
	wait: (pause) => !waits(pause) ? "The server can continue." : `Nothing needs to be done until ${pause.for === "callback" ? "it arrives" : "then"}. After that, the server can continue.`,
	none: () => "The server does not make this call again. Cancel the task, or complete it if the work is done elsewhere.",
};

const stepOf = (pause) => PAUSES.steps.map((name) => pause[name]).find(Boolean) ?? pause.step;

/** Why a workflow is paused, for a person: a headline, sentences, and the tool's message. */
function why(pause) {
	const step = pause.until === null ? null : stepOf(pause);
	const reason = PAUSES.types[pause.type];
	const known = reason && !reason.is_failure ? ADVICE[reason.remedy] : null;
	const advice = "retryable" in pause ? afterFailure(pause) : typeof known === "function" ? known(pause) : known;
	return {
		bad: reason?.is_failure, title: `Paused${step ? ` at ${step}` : ""}: ${shortForm(pause)}`, quote: pause.error,
		says: [(!reason || needsApproval(pause)) && pause.message, pause.reason && `The reason: "${pause.reason}"`, advice].filter(Boolean),
		points: [
			...(pause.invalidFields ?? []).map((entry) => `${entry.field}: ${entry.problem}`),
			...(pause.unapproved ?? []).map(({ message, reason }) => `Not approved: ${message}${reason === undefined ? "" : " (denied)"}`),
		],
	};
}

function afterFailure(pause) {
	if (!pause.suggestedTool && !pause.resource) return "It cannot be repeated. Cancel the task, or complete it if the work is done elsewhere.";
	if (pause.retryable) return "The same call may succeed if it is repeated.";
	if (pause.errorId) return `Only the server's log says why. Tell its operator the error id ${pause.errorId}.`;
	return "Correct the cause or the values first: the same call would fail.";
}

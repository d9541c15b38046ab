// ---- Connecting.

/** Signs the user in with a code and PKCE. The page is a client whose id is the URL of its document. */
const signIn = {
	page: location.origin + location.pathname,
	refresh: null,
	renewing: null,

	get client() {
		return `${this.page}/client.json`;
	},

	async metadata() {
		return (await fetch(".well-known/oauth-authorization-server")).json();
	},

	async begin() {
		const { authorization_endpoint, scopes_supported } = await this.metadata();
		const started = { verifier: secret(), state: secret(), hash: location.hash };
		sessionStorage.setItem(SIGN_IN, JSON.stringify(started));
		location.assign(`${authorization_endpoint}?${new URLSearchParams({
			response_type: "code", client_id: this.client, redirect_uri: this.page, scope: scopes_supported.join(" "), state: started.state,
			code_challenge_method: "S256", code_challenge: await digestOf(started.verifier),
		})}`);
	},

	/** Take the code from the address if the user comes back. */
	async finish() {
		const answer = new URLSearchParams(location.search);
		if (!PAUSES.signs_in || !answer.has("state")) return;
		const started = JSON.parse(sessionStorage.getItem(SIGN_IN)) ?? {};
		sessionStorage.removeItem(SIGN_IN);
		history.replaceState(null, "", this.page + (started.hash ?? ""));
		if (answer.get("state") !== started.state) throw new Refused("This sign-in was not started in this tab. Sign in again.");
		if (!answer.has("code")) throw new Refused(`The sign-in failed: ${answer.get("error_description") ?? answer.get("error")}.`);
		await this.token({ grant_type: "authorization_code", code: answer.get("code"), code_verifier: started.verifier, redirect_uri: this.page });
	},

	async token(form) {
		const reply = await this.post("token_endpoint", form);
		if (!reply.ok) throw new Refused("The sign-in failed. Sign in again.", 401);
		const { access_token, refresh_token } = await reply.json();
		this.refresh = refresh_token ?? this.refresh;
		http.keep({ name: "Authorization", value: `Bearer ${access_token}` });
	},

	async post(endpoint, form) {
		const address = (await this.metadata())[endpoint];
		return fetch(address, { method: "POST", body: new URLSearchParams({ client_id: this.client, ...form }), credentials: "omit" });
	},

	/** Get a new access token. All requests that wait share one refresh token, which is used once. */
	async renew() {
		if (!this.refresh) return false;
		this.renewing ??= this.token({ grant_type: "refresh_token", refresh_token: this.refresh }).then(() => true, () => {
			this.refresh = null;
			return false;
		}).finally(() => { this.renewing = null; });
		return this.renewing;
	},

	/** Revoke the tokens. A renewal that is under way ends first, and no later one begins: each would store a new token. */
	async end() {
		await this.renewing;
		const token = this.refresh;
		this.refresh = null;
		if (token) await this.post("revocation_endpoint", { token }).catch(() => null);
	},
};

const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const secret = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const digestOf = async (text) => base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));

function needsCredentials(error) {
	return !IN_HOST && (error.status === 401 || error.status === 403);
}

function askForCredentials(error) {
	poll.stop();
	const refused = http.header && error ? { text: `The server did not accept this. ${error.message}`, bad: true } : null;
	Object.assign(state, { view: "connect", notice: refused, busy: "" });
	draw({ focus: "heading" });
	say(refused?.text ?? "");
	return false;
}

const CREDENTIAL = {
	required: ["way", "value"],
	properties: {
		way: { title: "Connect with", enum: ["x-api-key", "Authorization", "other"], enumNames: ["API key", "Bearer token", "Another header"] },
		value: { title: "Key, token or value", type: "string", writeOnly: true, pattern: "^[\\x20-\\x7e]+$", description: "Sent only to this server, and deleted when this tab is closed." },
		header: { title: "Name of the other header", type: "string", pattern: "^[!#$%&'*+.^_`\\|~0-9A-Za-z\\-]+$", description: "The value of `baton serve --owner-header`." },
	},
};

function connectView() {
	const form = kept("connect", CREDENTIAL, () => argumentForm({
		schema: CREDENTIAL, values: { way: "x-api-key" }, label: "Connect",
		async submit({ way, value, header }) {
			if (way === "other" && !header) throw new Refused("Write the name of the header.");
			http.keep({ name: way === "other" ? header : way, value: way === "Authorization" ? `Bearer ${value.trim().replace(/^bearer\s+/i, "")}` : value.trim() });
			server.tools = null;
			await start();
		},
	}));
	const begin = PAUSES.signs_in ? el("div", { class: "buttons" }, button("Sign in", "primary", () => signIn.begin(), { "data-key": "sign-in" })) : null;
	return [el("section", { class: "connect" }, heading("Connect"), el("p", { class: "muted" }, "This server shows tasks to their owner. Who are you?"), notice(), begin, form)];
}

const VIEWS = {
	start: () => [heading("Tasks"), el("p", { class: "muted", role: "status" }, state.starting ?? "Loading…")],
	list: listView,
	board: boardView,
	[APPROVALS]: approvalsView,
	connect: connectView,
};

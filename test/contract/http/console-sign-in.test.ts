/** Signing browsers in to the console, and out again. */
import assert from "node:assert/strict";
import type { ConsoleSession, ConsoleSessionEntry } from "../../../generated/http/client/types.gen.ts";
import { list } from "../../harness/control.ts";
import {
  attemptSignIn,
  CODES,
  createCode,
  ownPage,
  SESSION,
  SESSIONS,
  signIn,
} from "../../harness/console.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { bearer, configured, createKey, READER, reader } from "../../harness/keys.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";
import { send } from "../../harness/wire.ts";

scenario(
  "createConsoleCode",
  201,
  { title: "a link signs in once, and its second use is refused" },
  async (service) => {
    const { code, kind, key, expires_at: expires } = await createCode(service);
    assert.match(code, /^[\w-]{43}$/);
    assert.deepEqual([kind, key], ["link", "default"]);
    assert.ok(expires > Date.now() / 1000 && expires < Date.now() / 1000 + 61);
    const browser = await signIn(service, { code });
    assert.equal(browser.session.key, "default");
    await assertError(await attemptSignIn(service, { code }), 401, "invalid_code");
    assert.equal((await service.request("/v1/sessions", { headers: browser.headers })).status, 200);
  },
);

scenario(
  "createConsoleCode",
  201,
  { title: "an administrator creates a code for another key", keys: configured },
  async (service) => {
    await createKey(service, { name: "phone", scopes: ["read"] });
    for (const key of ["reader", "phone"]) {
      const { code } = await createCode(service, { key });
      const { session } = await signIn(service, { code });
      assert.deepEqual([session.key, session.scopes], [key, ["read"]]);
    }
  },
);

scenario(
  "createConsoleCode",
  403,
  { title: "a code for another key needs the scope admin", keys: configured },
  async (service) => {
    await createCode(service, {}, reader);
    const response = await post(service, CODES, { key: "default" }, reader);
    await assertError(response, 403, "insufficient_scope");
  },
);

scenario("createConsoleCode", 404, { title: "a key that does not exist" }, async (service) => {
  await assertError(await post(service, CODES, { key: "nobody" }), 404, "key_not_found");
});

scenario("createConsoleCode", 400, { title: "an unknown kind of code" }, async (service) => {
  await assertError(await post(service, CODES, { kind: "tattoo" }), 400, "invalid_request");
});

scenario(
  "createConsoleSession",
  401,
  { title: "a code that is too old is refused", clock: new FakeClock(Date.now()) },
  async (service) => {
    const clock = service.clock as FakeClock;
    const { code } = await createCode(service);
    const { code: phone } = await createCode(service, { kind: "phone" });
    clock.tick(60_000);
    await assertError(await attemptSignIn(service, { code }), 401, "invalid_code");
    clock.tick(60_000);
    await assertError(await attemptSignIn(service, { code: phone }), 401, "invalid_code");
  },
);

scenario(
  "createConsoleSession",
  401,
  { title: "a phone code is read without its dash, and is gone after five wrong codes" },
  async (service) => {
    const first = await createCode(service, { kind: "phone" });
    assert.match(first.code, /^[2-9A-HJKMNP-TV-Z]{4}-[2-9A-HJKMNP-TV-Z]{4}$/);
    const written = first.code.replace("-", "").toLowerCase();
    await signIn(service, { code: ` ${written} ` });
    const { code } = await createCode(service, { kind: "phone" });
    for (let attempt = 0; attempt < 5; attempt++)
      await assertError(await attemptSignIn(service, { code: "0000-0000" }), 401, "invalid_code");
    await assertError(await attemptSignIn(service, { code }), 401, "invalid_code");
  },
);

scenario(
  "createConsoleSession",
  401,
  { title: "a new phone code of a key ends its last one, and a wrong key is refused" },
  async (service) => {
    const { code: last } = await createCode(service, { kind: "phone" });
    const { code } = await createCode(service, { kind: "phone" });
    await assertError(await attemptSignIn(service, { code: last }), 401, "invalid_code");
    await signIn(service, { code });
    await assertError(await attemptSignIn(service, { key: "wrong-key-0123456789" }), 401, "invalid_api_key");
  },
);

scenario(
  "createConsoleSession",
  201,
  { title: "a key signs in, and is not in the answer" },
  async (service) => {
    const response = await attemptSignIn(service, { key: KEY }, { "user-agent": "A browser" });
    const cookie = response.headers.get("set-cookie") ?? "";
    assert.match(
      cookie,
      /^agentd_[0-9a-f]{8}=[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
    );
    const text = await response.text();
    assert.ok(!text.includes(KEY) && !cookie.includes(KEY));
    const session = JSON.parse(text) as ConsoleSession;
    assert.match(session.token ?? "", /^[\w-]{43}$/);
    assert.deepEqual(
      [session.key, session.owner, session.scopes, session.version],
      ["default", "default", ["admin"], "0.0.0-test"],
    );
    const [entry] = await list<ConsoleSessionEntry>(service, SESSIONS);
    assert.deepEqual([entry?.id, entry?.browser, entry?.is_current], [session.id, "A browser", false]);
    assert.match(entry?.address ?? "", /127\.0\.0\.1$/);
  },
);

scenario(
  "createConsoleSession",
  201,
  { title: "behind a proxy that ends TLS the cookie is for this host and TLS alone" },
  async (service) => {
    const proxied = { "x-forwarded-proto": "https" };
    const response = await attemptSignIn(service, { key: KEY }, proxied);
    assert.equal(response.status, 201);
    const [cookie = ""] = (response.headers.get("set-cookie") ?? "").split(";");
    assert.match(response.headers.get("set-cookie") ?? "", /^__Host-agentd_[0-9a-f]{8}=.*; Secure$/);
    const { token } = (await response.json()) as ConsoleSession;
    const headers = { ...ownPage(service), "x-agentd-console": token ?? "", cookie };
    assert.equal(
      (await service.request("/v1/sessions", { headers: { ...headers, ...proxied } })).status,
      200,
    );
    await assertError(await service.request("/v1/sessions", { headers }), 401, "sign_in_required");
  },
);

scenario("createConsoleSession", 400, { title: "both a code and a key, or neither" }, async (service) => {
  for (const body of [{}, { code: "x", key: KEY }])
    await assertError(await attemptSignIn(service, body), 400, "invalid_request");
});

scenario(
  "createConsoleSession",
  403,
  { title: "plain HTTP under the name of another machine is refused with the reason" },
  async (service) => {
    const from = (headers: object) =>
      send(service, {
        method: "POST",
        path: SESSION,
        headers: { host: "nas.local:8642", "content-type": "application/json", ...headers },
        body: JSON.stringify({ key: KEY }),
      });
    const own = { origin: "http://nas.local:8642" };
    const error = await assertError(await from(own), 403, "plain_http_not_allowed");
    assert.match(error.message, /TLS proxy.*tunnel.*console\.allow_plain_http/s);
    await assertError(await from({}), 403, "origin_not_allowed");
  },
);

scenario(
  "createConsoleSession",
  201,
  {
    title: "console.allow_plain_http allows plain HTTP under another name, to pages of that name",
    config: { console: { allow_plain_http: true } },
  },
  async (service) => {
    const from = (origin: string) =>
      send(service, {
        method: "POST",
        path: SESSION,
        headers: { host: "nas.local:8642", "content-type": "application/json", origin },
        body: JSON.stringify({ key: KEY }),
      });
    assert.equal((await from("http://nas.local:8642")).status, 201);
    await assertError(await from("http://nas.local:9000"), 403, "origin_not_allowed");
  },
);

scenario(
  "createConsoleSession",
  429,
  { title: "ten attempts a minute are allowed from an address", clock: new FakeClock(Date.now()) },
  async (service) => {
    const wrong = { key: "wrong-key-0123456789" };
    for (let attempt = 0; attempt < 10; attempt++)
      await assertError(await attemptSignIn(service, wrong), 401, "invalid_api_key");
    const refused = await attemptSignIn(service, { key: KEY });
    assert.equal(refused.headers.get("retry-after"), "60");
    await assertError(refused, 429, "rate_limit_exceeded");
    (service.clock as FakeClock).tick(60_000);
    await signIn(service, { key: KEY });
  },
);

scenario(
  "getConsoleSession",
  200,
  { title: "says who is signed in, for a session and for a key", keys: configured },
  async (service) => {
    const browser = await signIn(service, { key: READER });
    const session = await (await service.request(SESSION, { headers: browser.headers })).json();
    assert.deepEqual(session, { ...browser.session, token: null });
    const own = await (await service.request(SESSION, { headers: reader })).json();
    assert.deepEqual([own.id, own.key, own.scopes, own.auth_required], [null, "reader", ["read"], true]);
  },
);

scenario(
  "getConsoleSession",
  200,
  { title: "without keys there is no session and no code", requireKey: false },
  async (service) => {
    const session = await (await service.request(SESSION, { headers: ownPage(service) })).json();
    assert.deepEqual(
      [session.id, session.key, session.auth_required, session.scopes],
      [null, null, false, ["admin"]],
    );
    await assertError(await post(service, CODES, {}, ownPage(service)), 403, "auth_required");
  },
);

scenario("deleteConsoleSession", 200, { title: "a browser signs out" }, async (service) => {
  const [browser, other] = [await signIn(service, { key: KEY }), await signIn(service, { key: KEY })];
  const response = await service.request(SESSION, { method: "DELETE", headers: browser.headers });
  assert.deepEqual(await response.json(), {
    id: browser.session.id,
    object: "agent.console_session",
    deleted: true,
  });
  assert.match(
    response.headers.get("set-cookie") ?? "",
    /^agentd_[0-9a-f]{8}=; Path=\/; Max-Age=0; HttpOnly/,
  );
  await assertError(await service.request(SESSION, { headers: browser.headers }), 401, "sign_in_required");
  assert.equal((await service.request(SESSION, { headers: other.headers })).status, 200);
});

scenario("deleteConsoleSession", 404, { title: "a request with a key has no session" }, async (service) => {
  await assertError(await service.request(SESSION, { method: "DELETE" }), 404, "not_found");
});

scenario(
  "listConsoleSessions",
  200,
  { title: "shows the browsers of the key alone, newest first", keys: configured },
  async (service) => {
    const first = await signIn(service, { key: READER });
    const second = await signIn(service, { key: READER });
    await signIn(service, { key: KEY });
    const { data, has_more: hasMore } = await (
      await service.request(SESSIONS, { headers: first.headers })
    ).json();
    const shown = (data as ConsoleSessionEntry[]).map(({ id, is_current: isCurrent }) => [id, isCurrent]);
    assert.deepEqual(shown, [
      [second.session.id, false],
      [first.session.id, true],
    ]);
    assert.equal(hasMore, false);
    const rest = await list<ConsoleSessionEntry>(
      service,
      `${SESSIONS}?limit=1&after=${second.session.id}`,
      reader,
    );
    assert.deepEqual(
      rest.map(({ id }) => id),
      [first.session.id],
    );
  },
);

scenario("listConsoleSessions", 400, { title: "a cursor of another list" }, async (service) => {
  await assertError(await service.request(`${SESSIONS}?after=run_1`), 400, "invalid_cursor");
});

scenario(
  "deleteConsoleSessions",
  200,
  { title: "signs out one browser, all others, or all", keys: configured },
  async (service) => {
    const [a, b, c] = [
      await signIn(service, { key: KEY }),
      await signIn(service, { key: KEY }),
      await signIn(service, { key: KEY }),
    ];
    const foreign = await signIn(service, { key: READER });
    const remove = async (query: string, headers: Readonly<Record<string, string>>) =>
      (await (await service.request(SESSIONS + query, { method: "DELETE", headers })).json()).ended;
    assert.equal(await remove(`?session_id=${foreign.session.id}`, a.headers), 0);
    assert.equal(await remove(`?session_id=${c.session.id}`, a.headers), 1);
    assert.equal(await remove("?keep_current=true", a.headers), 1);
    assert.equal((await service.request(SESSION, { headers: a.headers })).status, 200);
    assert.equal((await service.request(SESSION, { headers: b.headers })).status, 401);
    assert.equal(await remove("", bearer(KEY)), 1);
    assert.equal((await service.request(SESSION, { headers: a.headers })).status, 401);
    assert.equal((await service.request(SESSION, { headers: foreign.headers })).status, 200);
  },
);

scenario("deleteConsoleSessions", 400, { title: "an unknown parameter" }, async (service) => {
  const response = await service.request(`${SESSIONS}?id=1`, { method: "DELETE" });
  await assertError(response, 400, "unsupported_parameter");
});

scenario("getConsoleSession", 400, { title: "an unknown parameter" }, async (service) => {
  await assertError(await service.request(`${SESSION}?id=1`), 400, "unsupported_parameter");
});

scenario("deleteConsoleSession", 400, { title: "an unknown parameter" }, async (service) => {
  const response = await service.request(`${SESSION}?id=1`, { method: "DELETE" });
  await assertError(response, 400, "unsupported_parameter");
});

/** What each operation answers while the console is off. */
const off = { title: "the console is off", config: { console: { enabled: false } } };
const answersNothing = (method: string, path: string) => async (service: TestService) => {
  const body = method === "POST" ? { body: "{}", headers: { "content-type": "application/json" } } : {};
  await assertError(await service.request(path, { method, ...body }), 404, "not_found");
};
scenario("getConsoleSession", 404, off, answersNothing("GET", SESSION));
scenario("createConsoleSession", 404, off, answersNothing("POST", SESSION));
scenario("deleteConsoleSession", 404, off, answersNothing("DELETE", SESSION));
scenario("listConsoleSessions", 404, off, answersNothing("GET", SESSIONS));
scenario("deleteConsoleSessions", 404, off, answersNothing("DELETE", SESSIONS));
scenario("createConsoleCode", 404, off, answersNothing("POST", CODES));

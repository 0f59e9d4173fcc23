/** What the session of a browser opens, to whom, and until when. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { operationsWith } from "../harness/scenario.ts";
import { signIn, createCode, ownPage, SESSION, type Browser } from "../harness/console.ts";
import { bearer, configured, createKey, KEYS, READER, reader, replicaOf, stop } from "../harness/keys.ts";
import { post } from "../harness/runs.ts";
import { assertError } from "../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";
import { send } from "../harness/wire.ts";

const RUNS = "/v1/runs";

function read(service: TestService, headers: Readonly<Record<string, string>>, path = RUNS) {
  return service.request(path, { headers });
}

/** Opens the gateway's socket with a ticket of the session. */
async function openSocket(service: TestService, { headers }: Browser) {
  const { ticket } = await (await post(service, "/api/auth/ws-ticket", {}, headers)).json();
  const socket = new WebSocket(`${service.url.replace("http", "ws")}/api/ws?ticket=${ticket}`);
  const closed = new Promise<number>((resolve) =>
    socket.addEventListener("close", ({ code }) => resolve(code)),
  );
  await new Promise((resolve) => socket.addEventListener("message", resolve, { once: true }));
  return { socket, closed };
}

test("the cookie without the other half opens nothing, nor the other half without the cookie", async () => {
  await using service = await startTestService();
  const { headers, cookie, token } = await signIn(service, { key: KEY });
  assert.equal((await read(service, headers)).status, 200);
  const { cookie: _, ...withoutCookie } = headers;
  const { "x-agentd-console": __, ...withoutToken } = headers;
  await assertError(await read(service, withoutToken), 401, "sign_in_required");
  await assertError(await read(service, withoutCookie), 401, "missing_api_key");
  const other = await signIn(service, { key: KEY });
  await assertError(
    await read(service, { ...headers, "x-agentd-console": other.token }),
    401,
    "sign_in_required",
  );
  await assertError(await read(service, { ...headers, "x-agentd-console": cookie }), 401, "sign_in_required");
  await assertError(await read(service, { ...headers, cookie: `${cookie}x` }), 401, "sign_in_required");
  await assertError(await read(service, { authorization: `Bearer ${token}` }), 401, "invalid_api_key");
});

test("a page on another port of this host can neither read nor write", async () => {
  await using service = await startTestService();
  const { headers, cookie } = await signIn(service, { key: KEY });
  const elsewhere = { ...headers, origin: "http://127.0.0.1:9", "sec-fetch-site": "same-site" };
  for (const own of [elsewhere, { ...elsewhere, "x-agentd-console": "" }]) {
    await assertError(await read(service, own), 403, "origin_not_allowed");
    await assertError(await post(service, RUNS, { input: "hi" }, own), 403, "origin_not_allowed");
    await assertError(await post(service, "/api/auth/ws-ticket", {}, own), 403, "origin_not_allowed");
  }
  // A form, as a page without scripts sends it: no header of ours, and only the cookie.
  const form = { cookie, origin: "http://127.0.0.1:9", "content-type": "text/plain" };
  const posted = await send(service, { method: "POST", path: RUNS, headers: form, body: "{}" });
  await assertError(posted, 403, "origin_not_allowed");
  const silent = { cookie, "x-agentd-console": headers["x-agentd-console"] ?? "" };
  await assertError(
    await post(service, RUNS, { input: "hi" }, { authorization: "", ...silent }),
    403,
    "origin_not_allowed",
  );
  const signInElsewhere = { ...ownPage(service), "sec-fetch-site": "cross-site" };
  await assertError(await post(service, SESSION, { key: KEY }, signInElsewhere), 403, "origin_not_allowed");
  assert.equal(((await (await read(service, headers)).json()) as { data: unknown[] }).data.length, 0);
});

test("a session opens exactly what its key opens", async () => {
  const scopes = ["read", "chat", "sessions"];
  const keys = scopes.map((scope) => ({ key: `${scope}-key-0123456789`, name: scope, scopes: [scope] }));
  await using service = await startTestService({ keys });
  const operations = operationsWith(401).filter(
    ({ tags, id }) => !tags.includes("Console") && id !== "createSocketTicket",
  );
  assert.ok(operations.length > 80);
  for (const { key, name } of keys) {
    const { headers } = await signIn(service, { key });
    for (const { id, method, route, body } of operations) {
      const request = {
        method,
        path: route.replaceAll(/\{[^}]+\}/g, "x"),
        ...(body ? { body: "{}" } : {}),
      };
      const common = {
        accept: "application/json",
        ...(body ? { "content-type": "application/json" } : {}),
      };
      const { authorization: _, ...page } = headers;
      const [own, sessions] = await Promise.all([
        send(service, { ...request, headers: { ...common, ...bearer(key) } }),
        send(service, { ...request, headers: { ...common, ...page } }),
      ]);
      assert.equal(sessions.status, own.status, `${id} for ${name}`);
      if (own.status < 400) continue;
      const [a, b] = [await own.json(), await sessions.json()];
      assert.equal(b.error.code, a.error.code, `${id} for ${name}`);
    }
  }
});

test("signing out ends the socket and the streams of that browser alone", async () => {
  await using service = await startTestService();
  const [browser, other] = [await signIn(service, { key: KEY }), await signIn(service, { key: KEY })];
  const [mine, theirs] = [await openSocket(service, browser), await openSocket(service, other)];
  const stream = await read(service, { ...browser.headers, accept: "text/event-stream" }, "/v1/events");
  const cut = assert.rejects(stream.text());
  await service.request(SESSION, { method: "DELETE", headers: browser.headers });
  assert.equal(await mine.closed, 4401);
  await cut;
  assert.equal(theirs.socket.readyState, WebSocket.OPEN);
  await service.request("/api/console/sessions", { method: "DELETE" });
  assert.equal(await theirs.closed, 4401);
});

test("a session that ends on one server ends on the others, with its sockets", async () => {
  await using service = await startTestService();
  const replica = await replicaOf(service);
  try {
    const browser = await signIn(service, { key: KEY });
    const headers = { ...browser.headers, origin: replica.url };
    assert.equal((await read(replica, headers)).status, 200);
    const { closed } = await openSocket(replica, { ...browser, headers });
    await service.request(SESSION, { method: "DELETE", headers: browser.headers });
    assert.equal(await closed, 4401);
    await assertError(await read(replica, headers), 401, "sign_in_required");
  } finally {
    await stop(replica);
  }
});

test("a session lives through a restart, and as long as its configured key is the same", async () => {
  let service = await startTestService({ keys: configured });
  try {
    const { headers } = await signIn(service, { key: READER });
    const own = () => ({ ...headers, origin: service.url });
    service = await service.restart({ keys: configured });
    assert.equal((await read(service, own())).status, 200);
    const scoped = configured.map((key) => (key.name === "reader" ? { ...key, scopes: ["chat"] } : key));
    service = await service.restart({ keys: scoped });
    await assertError(await read(service, own()), 403, "insufficient_scope");
    const changed = configured.map((key) => (key.name === "reader" ? { ...key, key: `${READER}x` } : key));
    service = await service.restart({ keys: changed });
    await assertError(await read(service, own()), 401, "sign_in_required");
    service = await service.restart({ keys: configured.filter(({ name }) => name !== "reader") });
    await assertError(await read(service, own()), 401, "sign_in_required");
  } finally {
    await service[Symbol.asyncDispose]();
  }
});

test("a created key takes its sessions and sockets along when it is revoked or replaced", async () => {
  await using service = await startTestService();
  const key = await createKey(service, { scopes: ["read", "chat"] });
  const { code } = await createCode(service, { key: "phone" });
  const browsers = [await signIn(service, { key: key.key }), await signIn(service, { code })];
  const sockets = [];
  for (const browser of browsers) sockets.push(await openSocket(service, browser));
  await service.request(`${KEYS}/${key.id}`, {
    method: "PATCH",
    body: JSON.stringify({ scopes: ["chat"] }),
    headers: { "content-type": "application/json" },
  });
  // A socket has the scopes that it was opened with, so it ends; the session has those that the key has now.
  for (const { closed } of sockets) assert.equal(await closed, 4401);
  for (const { headers } of browsers)
    await assertError(await read(service, headers), 403, "insufficient_scope");
  await post(service, `${KEYS}/${key.id}/rotate`, { expire_previous_seconds: 0 });
  for (const { headers } of browsers)
    await assertError(await read(service, headers), 401, "sign_in_required");
  const again = await createKey(service, { name: "tablet" });
  const tablet = await signIn(service, { key: again.key });
  await service.request(`${KEYS}/${again.id}`, { method: "DELETE" });
  await assertError(await read(service, tablet.headers), 401, "sign_in_required");
});

test("a code of a key that is revoked meanwhile signs no browser in", async () => {
  await using service = await startTestService();
  const key = await createKey(service);
  const { code } = await createCode(service, { key: "phone" });
  await service.request(`${KEYS}/${key.id}`, { method: "DELETE" });
  const response = await post(service, SESSION, { code }, ownPage(service));
  await assertError(response, 401, "sign_in_required");
});

test("two servers on one host keep their sessions apart", async () => {
  await using a = await startTestService();
  await using b = await startTestService();
  const [inA, inB] = [await signIn(a, { key: KEY }), await signIn(b, { key: KEY })];
  const [nameA, nameB] = [inA.cookie, inB.cookie].map((cookie) => cookie.split("=")[0]);
  assert.notEqual(nameA, nameB);
  const cookie = `${inA.cookie}; ${inB.cookie}`;
  assert.equal((await read(a, { ...inA.headers, cookie })).status, 200);
  assert.equal((await read(b, { ...inB.headers, cookie })).status, 200);
  await assertError(await read(b, { ...inA.headers, cookie }), 401, "sign_in_required");
  await a.request(SESSION, { method: "DELETE", headers: { ...inA.headers, cookie } });
  assert.equal((await read(b, { ...inB.headers, cookie })).status, 200);
});

test("a key of the request wins over the session, and a session acts for other owners as its key may", async () => {
  await using service = await startTestService({ keys: configured });
  const { headers } = await signIn(service, { key: KEY });
  const both = { ...headers, ...reader };
  const { key } = await (await read(service, both, SESSION)).json();
  assert.equal(key, "reader");
  assert.equal((await read(service, { ...headers, "x-agent-owner": "*" }, "/v1/sessions")).status, 200);
  const weak = await signIn(service, { key: READER });
  await assertError(
    await read(service, { ...weak.headers, "x-agent-owner": "default" }),
    403,
    "insufficient_scope",
  );
});

test("no code, cookie or token is in the log, the feed, an address or, as it is, in the database", async () => {
  await using service = await startTestService({ logLevel: "debug" });
  const { code } = await createCode(service);
  const { code: phone } = await createCode(service, { kind: "phone" });
  const browsers = [
    await signIn(service, { code }),
    await signIn(service, { code: phone }),
    await signIn(service, { key: KEY }),
  ];
  const { code: open } = await createCode(service);
  for (const browser of browsers) {
    const { socket, closed } = await openSocket(service, browser);
    socket.close();
    await closed;
    await read(service, browser.headers, SESSION);
  }
  await post(service, SESSION, { code: "0000-0000" }, ownPage(service));
  await service.request(SESSION, { method: "DELETE", headers: browsers[0]?.headers ?? {} });
  const secrets = [code, phone, open, KEY];
  for (const { cookie, token } of browsers) secrets.push(cookie.split("=")[1] ?? "", token);
  assert.ok(secrets.every((each) => each.length >= 9));
  const { store } = service.service;
  const tables = ["console_sessions", "console_codes", "changes", "ledger", "events"] as const;
  const written = [...service.logLines];
  for (const table of tables)
    written.push(JSON.stringify(await store.read.selectFrom(table).selectAll().execute()));
  for (const secret of secrets)
    assert.ok(!written.join("\n").includes(secret), `${secret} is written somewhere`);
  assert.equal(service.logLines.filter((line) => line.includes("a browser signed in")).length, 3);
});

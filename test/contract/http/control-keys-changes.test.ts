/** Changes of API keys, and what ends with them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApiKey, FeedEvent } from "../../../generated/http/client/types.gen.ts";
import { createSession, list, patch, storedEvents } from "../../harness/control.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import {
  KEYS,
  READER,
  bearer,
  configured,
  createKey,
  reader,
  replicaOf,
  status,
  stop,
} from "../../harness/keys.ts";
import { createGate, post, startRun } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { readFrames } from "../../harness/sse.ts";

scenario(
  "updateKey",
  200,
  { title: "scopes and limits change at once; null removes a limit" },
  async (service) => {
    const { id, key } = await createKey(service, { rate_limit_rpm: 1_000 });
    await assertError(
      await service.request("/v1/runs", { method: "POST", body: "{}", headers: bearer(key) }),
      403,
      "insufficient_scope",
    );
    const scopesNow = async () => (await (await service.request(`${KEYS}/${id}`)).json()).scopes;
    const tried = await patch(service, `${KEYS}/${id}?dry_run=true`, { scopes: ["runs"] });
    assert.deepEqual((await tried.json()).scopes, ["runs"]);
    assert.deepEqual(await scopesNow(), ["read"]);
    const changed = await patch(service, `${KEYS}/${id}`, { scopes: ["runs"], rate_limit_rpm: null });
    const body = (await changed.json()) as ApiKey;
    assert.deepEqual([body.scopes, body.rate_limit_rpm], [["runs"], null]);
    await startRun(service, {}, bearer(key));
    assert.equal(await status(service, key), 403);
    await patch(service, `${KEYS}/${id}`, { scopes: ["read"], rate_limit_rpm: 1 });
    assert.deepEqual([await status(service, key), await status(service, key)], [200, 429]);
  },
);

scenario("updateKey", 412, { title: "a stale ETag, which the error replaces" }, async (service) => {
  const { id } = await createKey(service);
  const etag = (await service.request(`${KEYS}/${id}`)).headers.get("etag") ?? "";
  const both = await Promise.all(
    [["runs"], ["chat"]].map((scopes) => patch(service, `${KEYS}/${id}`, { scopes }, { "if-match": etag })),
  );
  assert.deepEqual(both.map((each) => each.status).toSorted(), [200, 412]);
});

scenario("updateKey", 412, { title: "each field that can be changed changes the ETag" }, async (service) => {
  const { id } = await createKey(service);
  const path = `${KEYS}/${id}`;
  const tagNow = async () => (await service.request(path)).headers.get("etag") ?? assert.fail();
  const changes = [
    { scopes: ["runs"] },
    { rate_limit_rpm: 7 },
    { max_concurrent_runs: 3 },
    { day_budget_usd: 1.5 },
    { expires_at: Math.ceil(Date.now() / 1000) + 86_400 },
  ];
  for (const change of changes) {
    const etag = await tagNow();
    const first = await patch(service, path, change, { "if-match": etag });
    assert.equal(first.status, 200, JSON.stringify(change));
    assert.equal(first.headers.get("etag"), await tagNow());
    const second = await patch(service, path, change, { "if-match": etag });
    await assertError(second, 412, "precondition_failed");
    const unchanged = await service.request(path, { headers: { "if-none-match": etag } });
    assert.equal(unchanged.status, 200, JSON.stringify(change));
  }
});

for (const id of ["updateKey", "deleteKey", "rotateKey"] as const) {
  const send = (service: TestService, key: string, headers: Record<string, string> = {}) => {
    const json = { "content-type": "application/json", ...headers };
    if (id === "deleteKey") return service.request(`${KEYS}/${key}`, { method: "DELETE", headers });
    if (id === "rotateKey") return post(service, `${KEYS}/${key}/rotate`, {}, json);
    return patch(service, `${KEYS}/${key}`, { scopes: ["read"] }, json);
  };
  test(`${id} 404: a key that does not exist or is revoked`, async () => {
    await using service = await startTestService({});
    const { id: key } = await createKey(service);
    assert.equal((await service.request(`${KEYS}/${key}`, { method: "DELETE" })).status, 200);
    for (const each of [key, "key_none"]) await assertError(await send(service, each), 404, "key_not_found");
  });
  test(`${id} 409: a configured key does not change, key_is_static`, async () => {
    await using service = await startTestService({ keys: configured });
    await assertError(await send(service, "config:reader"), 409, "key_is_static");
    assert.equal((await service.request("/v1/sessions", { headers: reader })).status, 200);
  });
  test(`${id} 412: the version that If-Match names is not the current one`, async () => {
    await using service = await startTestService({});
    const { id: key } = await createKey(service);
    const error = await assertError(
      await send(service, key, { "if-match": '"x"' }),
      412,
      "precondition_failed",
    );
    assert.equal(error.param, "If-Match");
  });
}

scenario("updateKey", 404, { title: "an id that does not exist" }, async (service) => {
  await assertError(await patch(service, `${KEYS}/key_none`, {}), 404, "key_not_found");
});
scenario("deleteKey", 404, { title: "an id that does not exist" }, async (service) => {
  await assertError(await service.request(`${KEYS}/key_none`, { method: "DELETE" }), 404, "key_not_found");
});
scenario("rotateKey", 404, { title: "an id that does not exist" }, async (service) => {
  await assertError(await post(service, `${KEYS}/key_none/rotate`, {}), 404, "key_not_found");
});
scenario("deleteKey", 412, { title: "a stale ETag leaves the key" }, async (service) => {
  const { id, key } = await createKey(service);
  const headers = { "if-match": '"stale"' };
  await assertError(
    await service.request(`${KEYS}/${id}`, { method: "DELETE", headers }),
    412,
    "precondition_failed",
  );
  assert.equal(await status(service, key), 200);
});
scenario("rotateKey", 412, { title: "a stale ETag leaves the value" }, async (service) => {
  const { id, key } = await createKey(service);
  const refused = await post(service, `${KEYS}/${id}/rotate`, {}, { "if-match": '"stale"' });
  await assertError(refused, 412, "precondition_failed");
  assert.equal(await status(service, key), 200);
});
scenario("rotateKey", 409, { title: "a configured key: key_is_static" }, async (service) => {
  await assertError(await post(service, `${KEYS}/config:default/rotate`, {}), 409, "key_is_static");
});
scenario("deleteKey", 400, { title: "an unknown query parameter" }, async (service) => {
  const refused = await service.request(`${KEYS}/x?force=true`, { method: "DELETE" });
  await assertError(refused, 400, "unsupported_parameter");
});
scenario("updateKey", 400, { title: "an unknown field, and an end in the past" }, async (service) => {
  const { id } = await createKey(service);
  const wrong: readonly (readonly [string, unknown])[] = [
    ["name", "x"],
    ["expires_at", 5],
    ["rate_limit_rpm", 0],
  ];
  for (const [param, value] of wrong) {
    const refused = await patch(service, `${KEYS}/${id}`, { [param]: value });
    assert.equal((await assertError(refused, 400, "invalid_request")).param, param);
  }
});
scenario("rotateKey", 400, { title: "a longer overlap than a week" }, async (service) => {
  const refused = await post(service, `${KEYS}/x/rotate`, { expire_previous_seconds: 604_801 });
  assert.equal((await assertError(refused, 400, "invalid_request")).param, "expire_previous_seconds");
});

scenario(
  "rotateKey",
  200,
  { title: "both values work until the old one expires, and a repeated request does not rotate again" },
  async (service) => {
    const { id, key: old } = await createKey(service);
    const once = { "idempotency-key": "k" };
    const rotated = (await (await post(service, `${KEYS}/${id}/rotate`, {}, once)).json()) as ApiKey;
    assert.match(rotated.key ?? "", /^agk_/);
    assert.notEqual(rotated.key, old);
    const seconds = (rotated.previous_expires_at ?? 0) - Date.now() / 1000;
    assert.ok(seconds > 240 && seconds <= 301, String(seconds));
    assert.deepEqual([await status(service, old), await status(service, rotated.key)], [200, 200]);
    const again = await post(service, `${KEYS}/${id}/rotate`, {}, once);
    assert.deepEqual([again.headers.get("idempotency-replayed"), (await again.json()).key], ["true", null]);
    const last = (await (
      await post(service, `${KEYS}/${id}/rotate`, { expire_previous_seconds: 0 })
    ).json()) as ApiKey;
    assert.deepEqual(
      [await status(service, old), await status(service, rotated.key), await status(service, last.key)],
      [401, 401, 200],
    );
  },
);

test("an expired key is 401, and so is the old value of a rotated one after its time", async () => {
  const clock = new FakeClock(Date.now());
  await using service = await startTestService({ clock });
  const { id, key } = await createKey(service, { expires_at: clock.now() / 1000 + 3_600 });
  const rotated = (await (
    await post(service, `${KEYS}/${id}/rotate`, { expire_previous_seconds: 60 })
  ).json()) as ApiKey;
  assert.deepEqual([await status(service, key), await status(service, rotated.key)], [200, 200]);
  clock.tick(60_000);
  assert.deepEqual([await status(service, key), await status(service, rotated.key)], [401, 200]);
  clock.tick(3_600_000);
  const refused = await service.request("/v1/sessions", { headers: bearer(rotated.key) });
  await assertError(refused, 401, "invalid_api_key");
  assert.equal(((await (await service.request(`${KEYS}/${id}`)).json()) as ApiKey).status, "expired");
});

scenario(
  "deleteKey",
  409,
  {
    title: "the last admin key cannot be revoked, and keeps its scope: last_admin_key",
    keys: [{ key: READER, name: "reader", scopes: ["read"] }],
  },
  async (service) => {
    const { ApiKeys } = await import("../../../src/store/keys/keys.ts");
    const keys = new ApiKeys({ store: service.service.store, configured: [] });
    const plain = { rateLimitRpm: null, maxConcurrentRuns: null, dayBudgetUsd: null, expiresAtMs: null };
    const make = (name: string) =>
      keys.create({ name, owner: name, scopes: ["admin"], ...plain }, { actor: "cli" });
    const [one, two] = [await make("one"), await make("two")];
    const headers = bearer(one.secret);
    const path = (id: string) => `${KEYS}/${id}`;
    const remove = (id: string) => service.request(path(id), { method: "DELETE", headers });
    assert.equal((await remove(two.row.id)).status, 200);
    await assertError(await remove(one.row.id), 409, "last_admin_key");
    await assertError(
      await patch(service, path(one.row.id), { scopes: ["read"] }, headers),
      409,
      "last_admin_key",
    );
    const three = await make("three");
    const both = await Promise.all([one, three].map(({ row }) => remove(row.id)));
    assert.ok(both.some((each) => each.status === 200) && both.some((each) => each.status !== 200));
  },
);

scenario("updateKey", 409, { title: "a configured key: key_is_static" }, async (service) => {
  await assertError(
    await patch(service, `${KEYS}/config:default`, { scopes: ["read"] }),
    409,
    "key_is_static",
  );
});

const speaking = createGate();
const revoking = { clock: new FakeClock(), script: speaking.script };

scenario(
  "deleteKey",
  200,
  {
    title: "a revoked key gets 401 and its open streams and sockets end within 5 s, on every replica",
    ...revoking,
  },
  async (service) => {
    const { clock } = revoking;
    const replica = await replicaOf(service, revoking);
    try {
      const { id, key } = await createKey(service, { scopes: ["admin"] });
      const here = await openAll(service, key);
      const there = await openAll(replica, key);
      assert.equal((await service.request(`${KEYS}/${id}`, { method: "DELETE" })).status, 200);
      assert.equal(await status(service, key), 401);
      await allEnd(here);
      clock.tick(1_999);
      // The other process has not looked at the database since.
      const late = await openStream(replica, "/v1/events", key);
      clock.tick(3_001);
      await allEnd([...there, late]);
      assert.equal(await status(replica, key), 401);
      assert.equal(
        (await service.request("/v1/events", { headers: { ...bearer(KEY), accept: "application/json" } }))
          .status,
        200,
      );
    } finally {
      // A stop waits for runs, and by this clock no wait ends.
      speaking.open();
      await stop(replica);
    }
  },
);

/** What a key has open. `ended` resolves when the server breaks it off, and rejects when it ends in any other way. */
interface Open {
  readonly ended: Promise<void>;
}

/** Opens a stream of each kind, and a socket. */
async function openAll(service: TestService, key: string): Promise<readonly Open[]> {
  const { run_id: run, session_id: session } = await startRun(service, {}, bearer(key));
  const paths = ["/v1/events", "/v1/logs", `/v1/runs/${run}/events`, `/v1/sessions/${session}/events`];
  const streams = await Promise.all(paths.map((path) => openStream(service, path, key)));
  return [...streams, await openSocket(service, key)];
}

async function openStream(service: TestService, path: string, key: string): Promise<Open> {
  const headers = { ...bearer(key), accept: "text/event-stream" };
  const response = await service.request(path, { headers });
  assert.equal(response.status, 200, path);
  const frames = readFrames(response);
  await frames.next();
  const read = async () => {
    while (!(await frames.next()).done);
  };
  return { ended: assert.rejects(read, path) };
}

async function openSocket(service: TestService, key: string): Promise<Open> {
  const socket = new WebSocket(`${service.url.replace("http", "ws")}/v1/tui/ws?token=${key}`);
  await new Promise((resolve) => socket.addEventListener("message", resolve, { once: true }));
  const closed = new Promise<number>((resolve) =>
    socket.addEventListener("close", ({ code }) => resolve(code)),
  );
  return { ended: closed.then((code) => assert.equal(code, 4401)) };
}

/** Time stands still while this waits. */
async function allEnd(open: readonly Open[]): Promise<void> {
  await Promise.all(open.map(({ ended }) => ended));
}

test("a socket and a stream that a ticket of the key opened end when its scopes change", async () => {
  await using service = await startTestService({});
  const { id, key } = await createKey(service, { scopes: ["read", "chat"] });
  const { ticket } = await (await post(service, "/api/auth/ws-ticket", {}, bearer(key))).json();
  const socket = new WebSocket(`${service.url.replace("http", "ws")}/v1/tui/ws?ticket=${ticket}`);
  await new Promise((resolve) => socket.addEventListener("message", resolve, { once: true }));
  const closed = new Promise<number>((resolve) =>
    socket.addEventListener("close", ({ code }) => resolve(code)),
  );
  await patch(service, `${KEYS}/${id}`, { rate_limit_rpm: 100 });
  assert.equal(socket.readyState, WebSocket.OPEN);
  await patch(service, `${KEYS}/${id}`, { scopes: ["chat"] });
  assert.equal(await closed, 4401);
});

scenario(
  "streamEvents",
  403,
  { title: "a key without admin gets no key and config events", keys: configured },
  async (service) => {
    const json = { accept: "application/json" };
    const { id, key } = await createKey(service, { owner: "reader" });
    await patch(service, `${KEYS}/${id}`, { rate_limit_rpm: 5 });
    await service.request(`${KEYS}/${id}`, { method: "DELETE" });
    const change = await patch(service, "/v1/config", { log: { level: "error" } }, { "if-match": "*" });
    assert.equal(change.status, 200, await change.text());
    await createSession(service, "s");
    await createSession(service, "s", { authorization: `Bearer ${KEY}` });
    const all = await storedEvents<FeedEvent>(service, "", { "x-agent-owner": "*" });
    assert.equal(all.filter(({ type }) => type === "config.updated").length, 1);
    const own = all.filter(({ type }) => type.startsWith("key."));
    assert.deepEqual(
      own.map(({ type, actor, owner }) => [type, actor, owner]),
      [
        ["key.created", "default", "reader"],
        ["key.updated", "default", "reader"],
        ["key.deleted", "default", "reader"],
      ],
    );
    assert.ok(!JSON.stringify(all).includes(key));
    assert.deepEqual(await list<FeedEvent>(service, "/v1/events", { ...json, ...reader }), []);
    for (const types of ["key.*", "config.updated", "service.started"]) {
      const refused = await service.request(`/v1/events?types=${types}`, { headers: { ...json, ...reader } });
      assert.equal((await assertError(refused, 403, "insufficient_scope")).param, "types");
    }
  },
);

/** API keys that are created while the server runs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApiKey } from "../../../generated/http/client/types.gen.ts";
import { createSession, list } from "../../harness/control.ts";
import { KEYS, bearer, configured, createKey, replicaOf, status, stop } from "../../harness/keys.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { startTestService } from "../../harness/service.ts";

scenario(
  "createKey",
  201,
  { title: "a created key works at once on every replica and its value is shown once" },
  async (service) => {
    const replica = await replicaOf(service);
    try {
      const response = await post(service, KEYS, { name: "phone", owner: "ann", scopes: ["chat", "read"] });
      const key = (await response.json()) as ApiKey;
      assert.match(key.key ?? "", /^agk_[\w-]{43}$/);
      assert.deepEqual(
        [key.name, key.owner, key.scopes, key.status, key.source, key.created_by],
        ["phone", "ann", ["chat", "read"], "active", "api", "default"],
      );
      assert.equal(response.headers.get("location"), `${KEYS}/${key.id}`);
      for (const each of [service, replica]) assert.equal(await status(each, key.key), 200);
      await createSession(replica, "s", bearer(key.key));
      const { auth } = await (await service.request("/v1/capabilities", { headers: bearer(key.key) })).json();
      assert.deepEqual(auth, {
        type: "bearer",
        required: true,
        key: "phone",
        owner: "ann",
        scopes: ["chat", "read"],
      });
      const shown = await (await service.request(`${KEYS}/${key.id}`)).text();
      assert.ok(!shown.includes(key.key ?? ""));
      const tables = ["api_keys", "ledger", "changes"] as const;
      for (const table of tables) {
        const rows = await service.service.store.read.selectFrom(table).selectAll().execute();
        assert.ok(!JSON.stringify(rows).includes(key.key ?? ""), table);
      }
      assert.ok(!service.logLines.join("\n").includes(key.key ?? ""));
    } finally {
      await stop(replica);
    }
  },
);

scenario(
  "createKey",
  201,
  { title: "a repeated request makes one key and does not show its value again" },
  async (service) => {
    const once = { "idempotency-key": "k" };
    const body = { name: "phone", scopes: ["read"] };
    const first = (await (await post(service, KEYS, body, once)).json()) as ApiKey;
    const again = await post(service, KEYS, body, once);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.deepEqual(await again.json(), { ...first, key: null });
    await assertError(
      await post(service, KEYS, { ...body, name: "other" }, once),
      409,
      "idempotency_key_conflict",
    );
    const tried = await post(service, `${KEYS}?dry_run=true`, { name: "x", scopes: ["read"] });
    assert.deepEqual([tried.headers.get("x-agent-dry-run"), (await tried.json()).key], ["true", null]);
    assert.equal((await list<ApiKey>(service, `${KEYS}?limit=1`)).length, 2, "one made, one configured");
  },
);

scenario(
  "createKey",
  400,
  { title: "a wrong name, an unknown scope, and an end in the past" },
  async (service) => {
    const wrong: readonly (readonly [object, string])[] = [
      [{ name: "a b", scopes: ["read"] }, "name"],
      [{ name: "a", scopes: ["root"] }, "scopes[0]"],
      [{ name: "a", scopes: [] }, "scopes"],
      [{ name: "a", scopes: ["read"], owner: "*" }, "owner"],
      [{ name: "a", scopes: ["read"], expires_at: 1 }, "expires_at"],
      [{ name: "a", scopes: ["read"], key: "mine" }, "key"],
    ];
    for (const [body, param] of wrong) {
      const error = await assertError(await post(service, KEYS, body), 400, "invalid_request");
      assert.equal(error.param, param);
    }
  },
);

scenario(
  "createKey",
  409,
  { title: "a name is taken while its key is in use: key_exists", keys: configured },
  async (service) => {
    const { id } = await createKey(service);
    for (const name of ["phone", "reader"]) {
      const refused = await post(service, KEYS, { name, scopes: ["read"] });
      assert.equal((await assertError(refused, 409, "key_exists")).param, "name");
    }
    assert.equal((await service.request(`${KEYS}/${id}`, { method: "DELETE" })).status, 200);
    await createKey(service);
  },
);

const closed = ["listKeys", "createKey", "getKey", "updateKey", "deleteKey", "rotateKey"];

test("under INSECURE_NO_AUTH no key can be made: 403 auth_required, nor read or changed", async () => {
  await using service = await startTestService({ requireKey: false });
  const requests: readonly (readonly [string, string, object?])[] = [
    ["GET", KEYS],
    ["POST", KEYS, { name: "a", scopes: ["admin"] }],
    ["GET", `${KEYS}/x`],
    ["PATCH", `${KEYS}/x`, { scopes: ["read"] }],
    ["DELETE", `${KEYS}/x`],
    ["POST", `${KEYS}/x/rotate`, {}],
  ];
  assert.equal(requests.length, closed.length);
  for (const [method, path, body] of requests) {
    const response = await service.request(path, {
      method,
      ...(body ? { body: JSON.stringify(body), headers: { "content-type": "application/json" } } : {}),
    });
    await assertError(response, 403, "auth_required");
  }
});

scenario(
  "listKeys",
  200,
  { title: "created keys are listed newest first, then those of the configuration", keys: configured },
  async (service) => {
    for (const name of ["a", "b", "c"])
      await createKey(service, { name, owner: name === "a" ? "ann" : "bob" });
    const names = async (query: string) =>
      (await list<ApiKey>(service, KEYS + query)).map(({ name }) => name);
    for (const limit of [1, 2, 3, 4, 5, 100])
      assert.deepEqual(await names(`?limit=${limit}`), ["c", "b", "a", "default", "reader"]);
    assert.deepEqual(await names("?owner=ann"), ["a"]);
    const [{ id } = { id: "" }] = await list<ApiKey>(service, `${KEYS}?owner=ann`);
    await service.request(`${KEYS}/${id}`, { method: "DELETE" });
    assert.deepEqual(await names(""), ["c", "b", "default", "reader"]);
    assert.deepEqual(await names("?status=revoked"), ["a"]);
  },
);

scenario("listKeys", 400, { title: "a cursor of another list" }, async (service) => {
  await assertError(await service.request(`${KEYS}?after=run_1`), 400, "invalid_cursor");
  await assertError(await service.request(`${KEYS}?status=lost`), 400, "unsupported_parameter");
});

scenario("getKey", 200, { title: "a key names its owner, scopes and last use" }, async (service) => {
  const { id, key } = await createKey(service, { rate_limit_rpm: 5 });
  assert.equal(await status(service, key), 200);
  let shown: ApiKey;
  do shown = (await (await service.request(`${KEYS}/${id}`)).json()) as ApiKey;
  while (shown.last_used_at === null);
  assert.deepEqual([shown.rate_limit_rpm, shown.redacted_value], [5, `agk_...${key.slice(-4)}`]);
  const own = (await (await service.request(`${KEYS}/config:default`)).json()) as ApiKey;
  assert.deepEqual([own.source, own.redacted_value, own.scopes], ["config", null, ["admin"]]);
});

scenario("getKey", 304, { title: "with the current ETag, which use does not change" }, async (service) => {
  const { id, key } = await createKey(service);
  const etag = (await service.request(`${KEYS}/${id}`)).headers.get("etag") ?? "";
  await status(service, key);
  const response = await service.request(`${KEYS}/${id}`, { headers: { "if-none-match": etag } });
  assert.deepEqual([response.status, await response.text()], [304, ""]);
});

scenario("getKey", 404, { title: "an id that does not exist" }, async (service) => {
  await assertError(await service.request(`${KEYS}/key_none`), 404, "key_not_found");
});

scenario("getKey", 400, { title: "an unknown query parameter" }, async (service) => {
  await assertError(await service.request(`${KEYS}/x?a=1`), 400, "unsupported_parameter");
});

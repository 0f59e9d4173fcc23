/** Webhook routes over the control API. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { test } from "node:test";
import type { Route, WebhookResult } from "../../../generated/http/client/types.gen.ts";
import { list, patch } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { startTestService } from "../../harness/service.ts";
import { SECRET, WebhookService, withReceiver } from "../../harness/webhook.ts";
import {
  ROUTES,
  createRoute,
  file,
  hooks,
  keys,
  other,
  readRoute,
  routeEvents,
} from "../../harness/webhook-routes.ts";

scenario(
  "createRoute",
  201,
  {
    title: "a created route takes a signed request at once and shows its secret once",
    ...withReceiver({ keys }),
  },
  async (service) => {
    const made = await post(service, ROUTES, { name: "pushes", events: ["push"], prompt: "Look at {ref}." });
    assert.equal(made.status, 201);
    assert.equal(made.headers.get("location"), `${ROUTES}/pushes`);
    const route = (await made.json()) as Route & { secret: string };
    assert.deepEqual(
      [route.object, route.owner, route.source, route.enabled],
      ["agent.route", "a", "subscription", true],
    );
    assert.ok(route.secret.length >= 40);
    const receiver = new WebhookService(service);
    assert.equal(route.url, `${receiver.url}/webhooks/pushes`);
    const sent = await receiver.post(
      "pushes",
      { ref: "main" },
      { secret: route.secret, headers: { "x-github-event": "push" } },
    );
    assert.equal(sent.status, 202);
    const again = await service.request(`${ROUTES}/pushes`);
    assert.equal(again.headers.get("etag"), made.headers.get("etag"));
    const shown = await again.text();
    assert.doesNotMatch(shown, new RegExp(route.secret));
    const { secret, secrets, last_delivery_at: last } = JSON.parse(shown) as Route;
    assert.deepEqual([secret, secrets.length, typeof last], [null, 1, "number"]);
    assert.match(secrets[0]?.fingerprint ?? "", /^[0-9a-f]{12}$/);
    const run = await service.service.store.read.selectFrom("runs").select("owner").executeTakeFirstOrThrow();
    assert.equal(run.owner, "a", "the runs belong to the owner of the route");
    const [delivery] = await receiver.deliveries();
    assert.equal(delivery?.owner, "a");
  },
);

scenario(
  "createRoute",
  409,
  { title: "a name that a route has, configured or not", ...withReceiver({ keys, routes: { fixed: {} } }) },
  async (service) => {
    await createRoute(service, { name: "mine" });
    for (const name of ["mine", "fixed"]) {
      const error = await assertError(await post(service, ROUTES, { name }), 409, "route_exists");
      assert.equal(error.param, "name");
      await assertError(await post(service, ROUTES, { name }, other), 409, "route_exists");
    }
  },
);

scenario(
  "createRoute",
  400,
  {
    title: "a route that cannot work is refused with its issues and nothing is written",
    ...withReceiver({ keys }),
  },
  async (service) => {
    for (const [body, code, says] of [
      [{ name: "Big Name" }, "invalid_request", /name/],
      [{ name: "a", evnts: [] }, "invalid_request", /evnts/],
      [{ name: "a", scheme: "none" }, "invalid_config", /scheme/],
      [{ name: "a", deliver_only: true }, "invalid_config", /deliver_only/],
      [{ name: "a", secret: "env:NOT_SET_HERE" }, "invalid_config", /NOT_SET_HERE/],
      [{ name: "a", coalesce: { window_seconds: 0 } }, "invalid_config", /coalesce/],
    ] as const) {
      assert.match((await assertError(await post(service, ROUTES, body), 400, code)).message, says);
    }
    assert.deepEqual(await routeEvents(service), []);
    await assert.rejects(readFile(file(service)));
  },
);

scenario(
  "createRoute",
  201,
  {
    title: "a repeated POST with the same Idempotency-Key creates once and shows no secret again",
    ...withReceiver({ keys }),
  },
  async (service) => {
    const headers = { "idempotency-key": "one" };
    const body = { name: "once", secret: "a-secret-that-people-made" };
    const first = await createRoute(service, body, headers);
    assert.equal(first.secret, body.secret);
    const second = await post(service, ROUTES, body, headers);
    assert.equal(second.headers.get("idempotency-replayed"), "true");
    assert.equal(((await second.json()) as Route).secret, null);
    await assertError(
      await post(service, ROUTES, { ...body, name: "two" }, headers),
      409,
      "idempotency_key_conflict",
    );
    const rows = await service.service.store.read.selectFrom("ledger").selectAll().execute();
    assert.doesNotMatch(JSON.stringify(rows), /that-people-made/);
  },
);

test("a dry run creates and changes nothing, and does not use its Idempotency-Key", async () => {
  await using service = await startTestService(withReceiver({ keys }));
  const headers = { "idempotency-key": "one" };
  const tried = await post(service, `${ROUTES}?dry_run=true`, { name: "a", events: ["push"] }, headers);
  assert.deepEqual([tried.status, tried.headers.get("x-agent-dry-run")], [201, "true"]);
  const shown = (await tried.json()) as Route;
  assert.deepEqual([shown.name, shown.secret, shown.events], ["a", null, ["push"]]);
  await assertError(await service.request(`${ROUTES}/a`), 404, "route_not_found");
  await createRoute(service, { name: "a", events: ["push"] }, headers);
  const changed = await patch(service, `${ROUTES}/a?dry_run=true`, { events: ["release"] });
  assert.deepEqual(((await changed.json()) as Route).events, ["release"]);
  assert.deepEqual((await readRoute(service, "a")).events, ["push"]);
  assert.deepEqual(
    (await routeEvents(service)).map(({ type }) => type),
    ["route.created"],
  );
});

scenario(
  "listRoutes",
  200,
  {
    title: "routes are listed by name, page by page, with filters, and only those of the owner",
    ...withReceiver({
      keys,
      routes: { fixed: { owner: "a" }, theirs: { owner: "b" }, off: { owner: "a", enabled: false } },
    }),
  },
  async (service) => {
    await createRoute(service, { name: "made" });
    await createRoute(service, { name: "elsewhere" }, other);
    const names = async (query: string, headers = {}) =>
      (await list<Route>(service, `${ROUTES}?${query}`, headers)).map(({ name }) => name);
    assert.deepEqual(await names("limit=1"), ["fixed", "made", "off"]);
    assert.deepEqual(await names("source=config"), ["fixed", "off"]);
    assert.deepEqual(await names("enabled=false"), ["off"]);
    assert.deepEqual(await names("", other), ["elsewhere", "theirs"]);
    assert.deepEqual(await names("", { "x-agent-owner": "*" }), [
      "elsewhere",
      "fixed",
      "made",
      "off",
      "theirs",
    ]);
    assert.deepEqual(await names("after=route:fixed"), ["made", "off"]);
    const response = await service.request(ROUTES);
    assert.ok(response.headers.get("x-agent-event-cursor"));
    assert.doesNotMatch(await response.text(), new RegExp(SECRET));
  },
);

scenario("listRoutes", 400, { title: "a cursor of another list", ...withReceiver() }, async (service) => {
  const error = await assertError(await service.request(`${ROUTES}?after=dlv_1`), 400, "invalid_cursor");
  assert.equal(error.param, "after");
});

test("a broken subscriptions file is an error that names it, and is not overwritten", async () => {
  await using service = await startTestService(withReceiver({ keys }));
  await createRoute(service, { name: "a" });
  await writeFile(file(service), "{");
  const refused = await assertError(await service.request(ROUTES), 400, "invalid_config");
  assert.match(refused.message, /webhook_subscriptions\.json/);
  await assertError(await post(service, ROUTES, { name: "b" }), 400, "invalid_config");
  assert.equal(await readFile(file(service), "utf8"), "{");
});

scenario(
  "getRoute",
  200,
  { title: "a subscription with a mistake is listed with its issues", ...withReceiver({ keys }) },
  async (service) => {
    await createRoute(service, { name: "a" });
    const written = JSON.parse(await readFile(file(service), "utf8")) as Record<string, object>;
    const broken = { ...written["a"], events: "push", retiring: 5, colour: "red" };
    await writeFile(file(service), JSON.stringify({ a: broken }));
    const { issues, events: accepted } = await readRoute(service, "a");
    assert.deepEqual(accepted, []);
    assert.match(issues.join("; "), /events.*retiring/);
  },
);

scenario(
  "getRoute",
  304,
  { title: "the current ETag", ...withReceiver({ routes: { hook: {} } }) },
  async (service) => {
    const etag = (await service.request(`${ROUTES}/hook`)).headers.get("etag") ?? "";
    const response = await service.request(`${ROUTES}/hook`, { headers: { "if-none-match": etag } });
    assert.deepEqual([response.status, await response.text()], [304, ""]);
  },
);

scenario("getRoute", 400, { title: "an unknown parameter", ...withReceiver() }, async (service) => {
  await assertError(await service.request(`${ROUTES}/hook?include=secret`), 400, "unsupported_parameter");
});

scenario(
  "createRoute",
  403,
  { title: "a key without admin cannot give a route more rights than it has", ...withReceiver({ keys }) },
  async (service) => {
    for (const [field, value] of [
      ["toolsets", ["terminal"]],
      ["trusts_sender", true],
      ["secret", "INSECURE_NO_AUTH"],
      ["filters", [{ any: [{ field: "payload.word", in_file: "/etc/shadow" }] }]],
    ] as const) {
      const made = await post(service, ROUTES, { name: "a", [field]: value }, hooks);
      assert.equal((await assertError(made, 403, "insufficient_scope")).param, field);
    }
    await createRoute(service, { name: "a" }, hooks);
    const changed = await patch(service, `${ROUTES}/a`, { toolsets: ["terminal"] }, hooks);
    assert.equal((await assertError(changed, 403, "insufficient_scope")).param, "toolsets");
    assert.equal((await patch(service, `${ROUTES}/a`, { toolsets: ["web"] })).status, 200);
    assert.equal((await patch(service, `${ROUTES}/a`, { toolsets: null }, hooks)).status, 200);
  },
);

scenario(
  "testRoute",
  200,
  {
    title: "a test reports each stage and what would be sent, and stores nothing",
    ...withReceiver({
      keys,
      routes: {
        hook: {
          owner: "a",
          events: ["push"],
          filters: [{ field: "ref", equals: "main" }],
          prompt: "Ref {ref}, {who}",
        },
      },
    }),
  },
  async (service) => {
    const ask = async (body: object) => {
      const response = await post(service, `${ROUTES}/hook/test`, body);
      assert.equal(response.status, 200, await response.clone().text());
      return (await response.json()) as WebhookResult;
    };
    const passed = await ask({ payload: { ref: "main" }, headers: { "X-Mine": "1" } });
    assert.deepEqual(
      passed.stages.map(({ stage, result }) => `${stage} ${result}`),
      ["signature", "parse", "dedupe", "events", "filters", "render"].map((stage) => `${stage} pass`),
    );
    assert.equal(passed.stages[0]?.detail, "tested by a");
    assert.deepEqual([passed.event, passed.http_status, passed.body?.["status"]], ["push", 202, "accepted"]);
    assert.match(passed.rendered ?? "", /Ref/);
    assert.deepEqual([passed.targets, passed.missing_fields], [["log"], ["{who}"]]);
    assert.deepEqual(passed.toolsets, ["web", "vision", "clarify"]);
    const stopped = await ask({ payload: { ref: "other" } });
    assert.deepEqual(
      [stopped.stages.at(-1)?.stage, stopped.http_status, stopped.rendered],
      ["filters", 200, null],
    );
    assert.equal((await ask({ event: "ping" })).stages.at(-1)?.stage, "events");
    const { read: rows } = service.service.store;
    assert.deepEqual(await rows.selectFrom("deliveries").select("id").execute(), []);
    assert.deepEqual(await rows.selectFrom("runs").select("id").execute(), []);
  },
);

scenario(
  "testRoute",
  409,
  { title: "a repeated test returns the first result, and its key is for one request", ...withReceiver() },
  async (service) => {
    await createRoute(service, { name: "a", prompt: "One {ref}" });
    await createRoute(service, { name: "b" });
    const payload = { ref: "main", password: "not-to-be-hashed" };
    const ask = (key: string, body: object, name = "a") =>
      post(service, `${ROUTES}/${name}/test`, body, { "idempotency-key": key });
    const result = async (response: Response) => {
      const { rendered } = (await response.json()) as WebhookResult;
      const isOne = /One/.test(rendered ?? "");
      return [response.status, response.headers.get("idempotency-replayed"), isOne ? "one" : "two"];
    };
    assert.deepEqual(await result(await ask("k", { payload })), [200, null, "one"]);
    await patch(service, `${ROUTES}/a`, { prompt: "Two {ref}" });
    assert.deepEqual(await result(await ask("k", { payload })), [200, "true", "one"]);
    assert.deepEqual(await result(await ask("other", { payload })), [200, null, "two"]);
    await assertError(await ask("k", { payload: { ref: "dev" } }), 409, "idempotency_key_conflict");
    await assertError(await ask("k", { payload }, "b"), 409, "idempotency_key_conflict");
    // What was refused is not kept: the request can be corrected.
    await assertError(await ask("fix", { payload }, "none"), 404, "route_not_found");
    assert.deepEqual(await result(await ask("fix", { payload })), [200, null, "two"]);
  },
);

scenario(
  "testRoute",
  400,
  { title: "a header that HTTP cannot carry", ...withReceiver() },
  async (service) => {
    const response = await post(service, `${ROUTES}/hook/test`, { headers: { "a b": "1" } });
    assert.equal((await assertError(response, 400, "invalid_request")).param, "headers.a b");
  },
);

test("routes can be listed, made and tested while the receiver is off", async () => {
  await using service = await startTestService({ config: { platforms: { webhook: { secret: SECRET } } } });
  await createRoute(service, { name: "a" });
  assert.equal((await readRoute(service, "a")).url, null);
  assert.equal((await post(service, `${ROUTES}/a/test`, {})).status, 200);
});

test("a route whose change cannot be recorded is as before", async () => {
  await using service = await startTestService({
    ...withReceiver({ keys }),
    wrapStore: (store) => ({
      ...store,
      write: async (work, options) =>
        store.write(async (tx) => {
          const result = await work(tx);
          if (isFailing) throw new Error("the disk is full");
          return result;
        }, options),
    }),
  });
  let isFailing = false;
  await createRoute(service, { name: "a", description: "before" });
  isFailing = true;
  assert.equal((await patch(service, `${ROUTES}/a`, { description: "after" })).status, 500);
  isFailing = false;
  assert.equal((await readRoute(service, "a")).description, "before");
});

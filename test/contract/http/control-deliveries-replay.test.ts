/** Replaying the deliveries of a time over the control API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Delivery, ReplayResult, WebhookResult } from "../../../generated/http/client/types.gen.ts";
import { list } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { WebhookService, withReceiver } from "../../harness/webhook.ts";

const keys = [
  { key: KEY, name: "a", scopes: ["admin"] },
  { key: "another-key-0123456789", name: "b", scopes: ["admin"] },
];
const routes = { hook: { owner: "a", prompt: "Look at {ref}." }, theirs: { owner: "b" } };
const PATH = "/v1/webhooks/deliveries";

/** Sends an event and waits until its delivery has ended. */
async function send(service: TestService, route: string, event: string): Promise<string> {
  const receiver = new WebhookService(service);
  const known = (await receiver.deliveries()).length;
  await receiver.post(
    route,
    {},
    {
      headers: { "x-github-event": event, "x-request-id": `${event}-${known}` },
    },
  );
  const rows = await receiver.recorded(
    (all) => all.length > known && all.every((row) => row.ended_at !== null),
  );
  return rows.at(-1)?.id ?? "";
}

test("a dry run against a changed filter shows the stop that the stored route does not give", async () => {
  await using service = await startTestService(withReceiver({ keys, routes }));
  const id = await send(service, "hook", "push");
  const dry = async (body: object) => {
    const response = await post(service, `${PATH}/${id}/replay?dry_run=true`, body);
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as WebhookResult;
  };
  assert.deepEqual(
    (await dry({})).stages.filter(({ result }) => result === "stop"),
    [],
  );
  const stopped = await dry({ route: { filters: [{ field: "ref", equals: "release" }] } });
  assert.deepEqual(
    [stopped.stages.at(-1)?.stage, stopped.stages.at(-1)?.result, stopped.body],
    ["filters", "stop", { status: "ignored", reason: "filter", route: "hook" }],
  );
});

const REPLAY = `${PATH}/replay`;

async function replayAll(service: TestService, body: object, query = ""): Promise<ReplayResult> {
  const response = await post(service, REPLAY + query, { route: "hook", from: 0, ...body });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as ReplayResult;
}

/** The deliveries as their replays see them: those that came from a sender, oldest first. */
const originals = async (service: TestService) =>
  (await list<Delivery>(service, PATH)).filter(({ replay_of: of }) => of === null).toReversed();

scenario(
  "replayDeliveries",
  200,
  {
    title: "deliveries of a time are replayed oldest first, page by page, and none a second time",
    ...withReceiver({ keys, routes }),
  },
  async (service) => {
    const { store } = service.service;
    for (const event of ["push", "release", "push", "push"]) await send(service, "hook", event);
    const ids = (await originals(service)).map(({ id }) => id);
    const [first = "", second = "", third = "", fourth = ""] = ids;
    await store.write(async (tx) => {
      for (const id of [first, second, third]) await tx.update("deliveries", { id }, { status: "failed" });
      await tx.db.deleteFrom("delivery_bodies").where("id", "=", second).execute();
    });
    const tried = await replayAll(service, {}, "?dry_run=true");
    const wanted = { matched: 3, replayed: 2, refused: [{ id: second, code: "delivery_not_replayable" }] };
    assert.deepEqual(tried, { ...wanted, last_id: third, has_more: false });
    assert.equal((await list(service, PATH)).length, 4, "a dry run replays nothing");
    const page = await replayAll(service, { limit: 2 });
    assert.deepEqual([page.matched, page.replayed, page.last_id, page.has_more], [2, 1, second, true]);
    const rest = await replayAll(service, { limit: 2, after: page.last_id });
    assert.deepEqual([rest.matched, rest.replayed, rest.has_more], [1, 1, false]);
    const replays = (await list<Delivery>(service, PATH)).filter(({ replay_of: of }) => of !== null);
    assert.deepEqual(replays.map(({ replay_of: of }) => of).toReversed(), [first, third]);
    assert.deepEqual((await replayAll(service, {})).refused, [
      { id: second, code: "delivery_not_replayable" },
    ]);
    assert.equal((await replayAll(service, { status: ["completed"] })).matched, 1, "no replay of a replay");
    assert.equal((await list<Delivery>(service, `${PATH}?replay_of=${fourth}`)).length, 1);
    const { created_at: at } = (await originals(service))[3] as Delivery;
    assert.equal((await replayAll(service, { from: at + 60, status: ["failed", "completed"] })).matched, 0);
  },
);

scenario(
  "replayDeliveries",
  200,
  { title: "a repeated request replays once", ...withReceiver({ keys, routes }) },
  async (service) => {
    const id = await send(service, "hook", "push");
    const body = { route: "hook", from: 0, status: ["completed"] };
    const once = { "idempotency-key": "k" };
    const first = await (await post(service, REPLAY, body, once)).json();
    const again = await post(service, REPLAY, body, once);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.deepEqual(await again.json(), first);
    assert.equal((await list(service, `${PATH}?replay_of=${id}`)).length, 1);
  },
);

scenario(
  "replayDeliveries",
  404,
  { title: "a route of another owner", ...withReceiver({ keys, routes }) },
  async (service) => {
    await assertError(await post(service, REPLAY, { route: "theirs", from: 0 }), 404, "route_not_found");
  },
);

scenario(
  "replayDeliveries",
  400,
  { title: "a request that names no route, no time or an unknown status", ...withReceiver({ keys, routes }) },
  async (service) => {
    for (const [body, code, param] of [
      [{ from: 0 }, "missing_required_parameter", "route"],
      [{ route: "hook" }, "missing_required_parameter", "from"],
      [{ route: "hook", from: 0, status: ["done"] }, "invalid_request", "status[0]"],
      [{ route: "hook", from: 0, after: "run_1" }, "invalid_cursor", "after"],
      [{ route: "hook", from: 0, limit: 1001 }, "invalid_request", "limit"],
    ] as const)
      assert.equal((await assertError(await post(service, REPLAY, body), 400, code)).param, param);
  },
);

scenario(
  "replayDeliveries",
  409,
  {
    title: "with the receiver off: receiver_disabled",
    keys,
    config: { platforms: { webhook: { extra: { routes } } } },
  },
  async (service) => {
    await assertError(await post(service, REPLAY, { route: "hook", from: 0 }), 409, "receiver_disabled");
  },
);

/** Changes of webhook routes over the control API. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import type { Route } from "../../../generated/http/client/types.gen.ts";
import { patch } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import type { TestService } from "../../harness/service.ts";
import { WebhookService, withReceiver } from "../../harness/webhook.ts";
import {
  ROUTES,
  createRoute,
  file,
  keys,
  other,
  readRoute,
  routeEvents,
} from "../../harness/webhook-routes.ts";

scenario(
  "updateRoute",
  200,
  {
    title: "null in a merge patch restores the default, and work does not change the ETag",
    ...withReceiver({ keys }),
  },
  async (service) => {
    const { secret } = await createRoute(service, {
      name: "a",
      events: ["push"],
      description: "mine",
      deliver_extra: { chat_id: "1", thread_id: "2" },
    });
    const before = (await service.request(`${ROUTES}/a`)).headers.get("etag") ?? "";
    const receiver = new WebhookService(service);
    await receiver.post("a", {}, { secret, headers: { "x-github-event": "push" } });
    const response = await patch(
      service,
      `${ROUTES}/a`,
      { description: null, events: null, deliver_extra: { thread_id: null } },
      { "if-match": before },
    );
    assert.equal(response.status, 200);
    const route = (await response.json()) as Route;
    assert.deepEqual([route.description, route.events, route.deliver_extra], [null, [], { chat_id: "1" }]);
    assert.notEqual(response.headers.get("etag"), before);
    const sent = await receiver.post("a", {}, { secret, headers: { "x-github-event": "release" } });
    assert.equal(sent.status, 202, "the secret stays, and the change applies at once");
  },
);

scenario(
  "updateRoute",
  412,
  {
    title: "of two changes with the same ETag one succeeds, and the other names the current one",
    ...withReceiver({ keys }),
  },
  async (service) => {
    await createRoute(service, { name: "a" });
    const etag = (await service.request(`${ROUTES}/a`)).headers.get("etag") ?? "";
    const both = await Promise.all(
      ["x", "y"].map((description) => patch(service, `${ROUTES}/a`, { description }, { "if-match": etag })),
    );
    assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 412]);
    const refused = both.find(({ status }) => status === 412)!;
    const { details } = (await assertError(refused, 412, "precondition_failed")) as never as {
      details: { etag: string };
    };
    assert.equal(details.etag, (await service.request(`${ROUTES}/a`)).headers.get("etag"));
  },
);

scenario(
  "updateRoute",
  409,
  {
    title: "a configured route cannot be changed: 409 route_is_static",
    ...withReceiver({ routes: { fixed: {} } }),
  },
  async (service) => {
    const refused = await patch(service, `${ROUTES}/fixed`, { enabled: false });
    assert.match((await assertError(refused, 409, "route_is_static")).message, /platforms\.webhook\.routes/);
  },
);

scenario(
  "deleteRoute",
  409,
  { title: "a configured route stays: route_is_static", ...withReceiver({ routes: { fixed: {} } }) },
  async (service) => {
    await assertError(await service.request(`${ROUTES}/fixed`, { method: "DELETE" }), 409, "route_is_static");
  },
);

scenario(
  "rotateRouteSecret",
  409,
  {
    title: "a configured route keeps its secret: route_is_static",
    ...withReceiver({ routes: { fixed: {} } }),
  },
  async (service) => {
    await assertError(await post(service, `${ROUTES}/fixed/rotate-secret`, {}), 409, "route_is_static");
  },
);

scenario(
  "updateRoute",
  400,
  { title: "a change that breaks the route is refused and changes nothing", ...withReceiver({ keys }) },
  async (service) => {
    await createRoute(service, { name: "a", prompt: "hello" });
    await assertError(await patch(service, `${ROUTES}/a`, { deliver: "nowhere:1" }), 400, "invalid_config");
    await assertError(await patch(service, `${ROUTES}/a`, { secret: "x" }), 400, "invalid_request");
    const url = "http://127.0.0.1/sk-abcdefghijklmnopqrstuvwxyz012345";
    const tried = await patch(service, `${ROUTES}/a?dry_run=true`, { deliver_extra: { url } });
    const { deliver_extra: shown } = (await tried.json()) as Route;
    assert.match(JSON.stringify(shown), /\[redacted\]/);
    const back = await patch(service, `${ROUTES}/a`, { deliver_extra: shown });
    assert.equal((await assertError(back, 400, "invalid_request")).param, "deliver_extra");
    assert.deepEqual(
      [(await readRoute(service, "a")).deliver, (await routeEvents(service)).length],
      ["log", 1],
    );
  },
);

scenario(
  "deleteRoute",
  200,
  {
    title: "a deleted route is unknown to the receiver at once, and again it is 404",
    ...withReceiver({ keys }),
  },
  async (service) => {
    const { secret } = await createRoute(service, { name: "a" });
    const response = await service.request(`${ROUTES}/a`, { method: "DELETE" });
    assert.deepEqual(await response.json(), { id: "a", object: "agent.route", deleted: true });
    assert.equal((await new WebhookService(service).post("a", {}, { secret })).status, 404);
    await assertError(await service.request(`${ROUTES}/a`, { method: "DELETE" }), 404, "route_not_found");
    const changes = await routeEvents(service);
    assert.deepEqual(
      changes.map(({ type, actor, owner, data }) => [type, actor, owner, data]),
      [
        ["route.created", "a", "a", { object: "agent.route", id: "a", enabled: true }],
        ["route.deleted", "a", "a", { object: "agent.route", id: "a" }],
      ],
    );
  },
);

scenario("deleteRoute", 412, { title: "a stale If-Match", ...withReceiver({ keys }) }, async (service) => {
  await createRoute(service, { name: "a" });
  const stale = { method: "DELETE", headers: { "if-match": '"0"' } };
  await assertError(await service.request(`${ROUTES}/a`, stale), 412, "precondition_failed");
});

scenario("deleteRoute", 400, { title: "an unknown parameter", ...withReceiver() }, async (service) => {
  const refused = await service.request(`${ROUTES}/a?force=true`, { method: "DELETE" });
  await assertError(refused, 400, "unsupported_parameter");
});

/** A request that looks for a route of another owner. */
const strangers = {
  getRoute: (service: TestService, name: string) => service.request(`${ROUTES}/${name}`, { headers: other }),
  updateRoute: (service: TestService, name: string) => patch(service, `${ROUTES}/${name}`, {}, other),
  rotateRouteSecret: (service: TestService, name: string) =>
    post(service, `${ROUTES}/${name}/rotate-secret`, {}, other),
  testRoute: (service: TestService, name: string) => post(service, `${ROUTES}/${name}/test`, {}, other),
  deleteRoute: (service: TestService, name: string) =>
    service.request(`${ROUTES}/${name}`, { method: "DELETE", headers: other }),
};
const foreign = {
  title: "an unknown route and another owner's look the same",
  ...withReceiver({ keys, routes: { fixed: { owner: "a" } } }),
};
const both = (operation: keyof typeof strangers) => async (service: TestService) => {
  await createRoute(service, { name: "made" });
  for (const name of ["made", "fixed", "none"]) {
    await assertError(await strangers[operation](service, name), 404, "route_not_found");
  }
};
scenario("getRoute", 404, foreign, both("getRoute"));
scenario("updateRoute", 404, foreign, both("updateRoute"));
scenario("deleteRoute", 404, foreign, both("deleteRoute"));
scenario("rotateRouteSecret", 404, foreign, both("rotateRouteSecret"));
scenario("testRoute", 404, foreign, both("testRoute"));

scenario(
  "rotateRouteSecret",
  200,
  { title: "after rotate-secret both secrets verify until the old one expires", ...withReceiver({ keys }) },
  async (service) => {
    const { secret: old } = await createRoute(service, { name: "a" });
    const receiver = new WebhookService(service);
    const status = async (secret: string) => (await receiver.post("a", {}, { secret })).status;
    const rotate = async (body: object, headers = {}) => {
      const response = await post(service, `${ROUTES}/a/rotate-secret`, body, headers);
      assert.equal(response.status, 200, await response.clone().text());
      return response.json();
    };
    const { secret, previous_expires_at: until } = await rotate({ expire_previous_seconds: 600 });
    assert.ok(secret !== old && until > Date.now() / 1000);
    assert.deepEqual([await status(old), await status(secret)], [202, 202]);
    const { secrets } = await readRoute(service, "a");
    assert.deepEqual(
      secrets.map(({ expires_at: at }) => at),
      [null, until],
    );
    // The old secret expires: the file says when.
    const text = await readFile(file(service), "utf8");
    await writeFile(file(service), text.replace(/"until": "[^"]*"/, '"until": "2020-01-01T00:00:00.000Z"'));
    assert.deepEqual([await status(old), await status(secret)], [401, 202]);
    const headers = { "idempotency-key": "now" };
    const last = await rotate({ expire_previous_seconds: 0 }, headers);
    assert.equal(last.previous_expires_at, null);
    assert.deepEqual([await status(secret), await status(last.secret)], [401, 202]);
    assert.equal((await rotate({ expire_previous_seconds: 0 }, headers)).secret, null, "shown once");
    assert.equal(await status(last.secret), 202, "and rotated once");
  },
);

scenario(
  "rotateRouteSecret",
  400,
  { title: "a time that is too long", ...withReceiver({ keys }) },
  async (service) => {
    await createRoute(service, { name: "a" });
    const body = { expire_previous_seconds: 604_801 };
    const error = await assertError(
      await post(service, `${ROUTES}/a/rotate-secret`, body),
      400,
      "invalid_request",
    );
    assert.equal(error.param, "expire_previous_seconds");
  },
);

scenario(
  "rotateRouteSecret",
  412,
  { title: "a stale If-Match", ...withReceiver({ keys }) },
  async (service) => {
    await createRoute(service, { name: "a" });
    const refused = await post(service, `${ROUTES}/a/rotate-secret`, {}, { "if-match": '"0"' });
    await assertError(refused, 412, "precondition_failed");
  },
);

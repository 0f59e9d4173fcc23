import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../../src/base/time.ts";
import { silentLog } from "../../../src/base/observe.ts";
import { Dispatcher } from "../../../src/deliver/outbox/dispatch.ts";
import { createTargets } from "../../../src/deliver/target.ts";
import { createWebhookTarget } from "../../../src/deliver/targets/webhook.ts";
import { openReceiver } from "../../harness/receiver.ts";
import { openTestStore } from "../../harness/store.ts";
import { startChild } from "../store/child.ts";
import { enqueue, reached } from "./dispatching.ts";

test("a sender that is killed while the receiver has the message: the next one sends it again at once", async (t) => {
  const { store, url } = await openTestStore(t);
  const receiver = await openReceiver(t, (response, _request, count) => {
    // The first one got the message, and its sender will never know.
    if (count === 1) child.process.kill("SIGKILL");
    else response.writeHead(204).end();
  });
  const payload = { id: "evt_1", url: receiver.url, secret: "0123456789abcdef", body: "{}" };
  const id = await enqueue(store, { target: `webhook:${receiver.host}`, payload });
  const child = startChild("../deliver/child-sender.ts", [url, receiver.host]);
  assert.equal(await child.exit, null);
  const clock = systemClock;
  const target = createWebhookTarget({ clock, version: "1", allowedPrivateHosts: [receiver.host] });
  const dispatcher = new Dispatcher({ store, clock, log: silentLog, targets: createTargets([target]) });
  await dispatcher.start();
  const [first, second] = await receiver.count(2);
  assert.deepEqual(
    [first, second].map((request) => [request?.headers["user-agent"], request?.headers["webhook-id"]]),
    [
      ["agentd/child", "evt_1"],
      ["agentd/1", "evt_1"],
    ],
  );
  assert.equal((await reached(store, id, "delivered")).attempts, 2);
  await dispatcher.close();
});

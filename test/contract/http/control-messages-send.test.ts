/** Sending a message over the control API. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FeedEvent, Message } from "../../../generated/http/client/types.gen.ts";
import { list, storedEvents } from "../../harness/control.ts";
import { messageWith } from "../../harness/outbox.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY } from "../../harness/service.ts";

const OUTBOX = "/v1/outbox";
const keys = [{ key: KEY, name: "laptop", owner: "ann", scopes: ["messages", "read"] }];
const ready = { platforms: { telegram: { extra: { token: "1:abc", api_url: "http://127.0.0.1:9" } } } };

scenario(
  "sendMessage",
  202,
  { title: "a message arrives as it was written, and names its author in the feed", keys },
  async (service) => {
    const text = "The build is green.\nMEDIA:/etc/passwd";
    const response = await post(service, OUTBOX, { target: "local", text });
    const sent = (await response.json()) as Message;
    assert.equal(response.status, 202, JSON.stringify(sent));
    assert.equal(response.headers.get("location"), `${OUTBOX}/${sent.id}`);
    assert.deepEqual([sent.owner, sent.platform, sent.ref, sent.text], ["ann", "local", null, null]);
    await messageWith(service, sent.id, "delivered");
    const folder = join(service.home, "agentd", "deliveries");
    const found = await readdir(folder, { recursive: true, withFileTypes: true });
    const file = found.find((each) => each.isFile());
    assert.ok(
      (await readFile(join(file?.parentPath ?? "", file?.name ?? ""), "utf8")).includes(text),
      "files are named, not sent",
    );
    const events = await storedEvents<FeedEvent>(service, "?types=message.created");
    assert.deepEqual(
      events.map(({ actor, owner }) => [actor, owner]),
      [["laptop", "ann"]],
    );
  },
);

scenario(
  "sendMessage",
  202,
  { title: "a repeated request sends one, and a dry run none", config: ready },
  async (service) => {
    const body = { target: "telegram:-100123", text: "hi", extra: { thread_id: "7" } };
    const tried = await post(service, `${OUTBOX}?dry_run=true`, body);
    assert.deepEqual([tried.status, tried.headers.get("x-agent-dry-run")], [202, "true"]);
    assert.equal(((await tried.json()) as Message).target, "telegram:-100123");
    assert.deepEqual(await list(service, OUTBOX), []);
    const once = { "idempotency-key": "k" };
    const first = (await (await post(service, OUTBOX, body, once)).json()) as Message;
    const again = await post(service, OUTBOX, body, once);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    assert.equal(((await again.json()) as Message).id, first.id);
    assert.equal((await list(service, OUTBOX)).length, 1);
  },
);

scenario(
  "sendMessage",
  400,
  { title: "addresses that name no chat, several, or the log" },
  async (service) => {
    for (const target of [
      "",
      " ",
      "pigeon:home",
      "all",
      "origin",
      "log",
      "local,sms:+15550100",
      "telegram:",
      "local:x",
    ]) {
      const refused = await post(service, OUTBOX, { target, text: "hi" });
      assert.equal((await assertError(refused, 400, "invalid_request")).param, "target", target);
    }
    const empty = await post(service, OUTBOX, { target: "local", text: "" });
    assert.equal((await assertError(empty, 400, "invalid_request")).param, "text");
    assert.deepEqual(await list(service, OUTBOX), []);
  },
);

scenario(
  "sendMessage",
  409,
  { title: "a platform that is not set up: platform_not_ready" },
  async (service) => {
    const refused = await post(service, OUTBOX, { target: "telegram:-100123", text: "hi" });
    assert.match((await assertError(refused, 409, "platform_not_ready")).message, /Nothing was sent/);
    assert.deepEqual(await list(service, OUTBOX), []);
  },
);

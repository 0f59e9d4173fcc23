import assert from "node:assert/strict";
import { chmod, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { webhooks } from "../../../src/cli/doctor/webhooks.ts";
import { testConfig } from "../../harness/service.ts";
import { createHome } from "../config/home-folder.ts";

const SECRET = "0123456789abcdef0123";

interface Given {
  /** Of platforms.webhook, which is enabled. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** Text of the file of subscriptions. */
  readonly file?: string;
  readonly mode?: number;
  readonly env?: Readonly<Record<string, string>>;
}

async function verdictOf({ settings, file, mode = 0o600, env = {} }: Given) {
  await using made = await createHome();
  const path = join(made.home, "webhook_subscriptions.json");
  if (file !== undefined) {
    await writeFile(path, file);
    await chmod(path, mode);
  }
  const webhook = { enabled: true, host: "127.0.0.1", port: 0, ...settings };
  return await webhooks({ config: testConfig({ platforms: { webhook } }), home: made.home, env });
}

/** An address where a server answers `/health` with this body. */
async function occupied(body: string) {
  const server = createServer((_, response) => response.end(body));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { port, [Symbol.dispose]: () => void server.close() };
}

test("a disabled receiver is fine and is not checked further", async () => {
  const { status, detail } = await verdictOf({ settings: { enabled: false }, file: "{" });
  assert.deepEqual([status, detail], ["ok", "disabled; enable them with `agentd gateway setup`"]);
});

test("invalid configured routes fail with their number", async () => {
  const routes = { open: { secret: "INSECURE_NO_AUTH" }, none: {}, good: { secret: SECRET } };
  const { status, detail } = await verdictOf({ settings: { host: "0.0.0.0", routes } });
  assert.equal(status, "fail");
  assert.match(detail, /^route open: INSECURE_NO_AUTH is for loopback addresses only.* \(and 1 more\)$/);
  assert.ok(!detail.includes(SECRET));
});

test("a secret that refers to an unset variable fails", async () => {
  const settings = { routes: { hook: { secret: "env:HOOK_SECRET" } } };
  assert.match((await verdictOf({ settings })).detail, /HOOK_SECRET/);
  assert.equal((await verdictOf({ settings, env: { HOOK_SECRET: SECRET } })).status, "ok");
});

test("a subscriptions file that is unreadable, or readable by others, fails", async () => {
  const file = JSON.stringify({ hook: { secret: SECRET } });
  assert.match((await verdictOf({ file: "{" })).fix ?? "", /move it away/);
  const open = await verdictOf({ file, mode: 0o644 });
  assert.deepEqual([open.status, open.fix?.startsWith("chmod 600 ")], ["fail", true]);
  const { status, detail } = await verdictOf({ file });
  assert.deepEqual([status, detail], ["ok", "127.0.0.1:0, routes: hook"]);
});

test("an invalid subscription is named", async () => {
  const file = JSON.stringify({ good: { secret: SECRET }, bare: {} });
  const { status, detail } = await verdictOf({ file });
  assert.deepEqual([status, detail.startsWith("bare: it has no secret")], ["warn", true]);
});

test("a receiver without routes, and a weak secret on a public address, are warnings", async () => {
  assert.deepEqual((await verdictOf({})).detail, "127.0.0.1:0 has no route");
  const routes = { hook: { secret: "short" } };
  assert.equal((await verdictOf({ settings: { routes } })).status, "ok");
  const { status, detail } = await verdictOf({ settings: { routes, host: "0.0.0.0" } });
  assert.equal(status, "warn");
  assert.match(detail, /secret of hook has fewer than 16 characters/);
});

test("an address used by another program fails, and a running receiver is fine", async () => {
  const routes = { hook: { secret: SECRET } };
  using other = await occupied('{"status": "fine"}');
  const taken = await verdictOf({ settings: { routes, port: other.port } });
  assert.deepEqual(
    [taken.status, taken.detail],
    ["fail", `127.0.0.1:${other.port} is in use by another program`],
  );
  using ours = await occupied('{"status": "ok", "platform": "webhook"}');
  assert.equal((await verdictOf({ settings: { routes, port: ours.port } })).status, "ok");
  const { port } = ours;
  ours[Symbol.dispose]();
  assert.equal((await verdictOf({ settings: { routes, port } })).status, "ok");
});

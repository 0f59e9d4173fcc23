import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { startRpcProcess } from "../../harness/rpc.ts";

async function makeHome(context: TestContext): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "agentd-stdio-"));
  context.after(() => rm(home, { recursive: true, force: true }));
  return home;
}

test("the end of the input ends the process with 0, when every call was answered", async (context) => {
  const host = await startRpcProcess(await makeHome(context));
  const answers = Array.from({ length: 5 }, () => host.call("rpc.discover"));
  host.wire.close();
  await Promise.all(answers);
  assert.equal(await host.wire.closed, 0);
});

for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) {
  test(`${signal} ends the process with 0`, async (context) => {
    const host = await startRpcProcess(await makeHome(context));
    await host.result("ping");
    host.kill(signal);
    assert.equal(await host.wire.closed, 0);
  });
}

test("frames alone reach the standard output, whatever prints", async (context) => {
  const noisy = fileURLToPath(new URL("noisy.ts", import.meta.url));
  const host = await startRpcProcess(await makeHome(context), {}, [noisy]);
  for (let n = 0; n < 20; n++) await host.result("ping");
  host.wire.close();
  await host.wire.closed;
  for (const text of ["from the console", "from: 'info'", "from the stream"]) {
    assert.ok(host.stderr().includes(text) || host.stderr().includes(text.replaceAll("'", '"')), text);
  }
});

test("a line above the limit is refused and the next one answered", async (context) => {
  await using host = await startRpcProcess(await makeHome(context));
  host.wire.send("x".repeat(16 * 1_048_576 + 1));
  const { error } = await host.frame((frame) => frame.error !== undefined);
  assert.deepEqual([error.code, error.data.reason], [-32600, "frame_too_large"]);
  assert.deepEqual(await host.result("ping"), { pong: true });
});

import assert from "node:assert/strict";
import { once } from "node:events";
import process from "node:process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { currentRuntime, residentBytes, watchEventLoop } from "../../../src/base/runtime.ts";

test("the runtime is named as it is", () => {
  const { name, version } = currentRuntime();
  assert.equal(name, "Deno" in globalThis ? "deno" : "node");
  assert.match(version, /^\d+\.\d+\.\d+/);
});

test("resident memory is a plausible number of bytes", () => {
  assert.ok(residentBytes() > 5_000_000);
});

test("a blocked event loop is seen, and told of once", async () => {
  const loop = watchEventLoop();
  try {
    // The first tick after a look only marks the time.
    await sleep(60);
    const untilMs = performance.now() + 150;
    while (performance.now() < untilMs);
    let worst = 0;
    for (let reads = 0; reads < 50 && worst < 0.05; reads++) {
      await sleep(30);
      worst = loop.read()?.max ?? 0;
    }
    assert.ok(worst >= 0.05 && worst < 5, `the longest delay was ${worst} s`);
    await sleep(60);
    const after = loop.read();
    assert.ok(after === undefined || after.max < worst, "a delay is told of once");
    if (after) assert.ok(after.median <= after.p99 && after.p99 <= after.max);
  } finally {
    loop.stop();
  }
});

test("measuring does not keep a process alive", async () => {
  const { spawn } = await import("node:child_process");
  const file = new URL("../../../src/base/runtime.ts", import.meta.url).href;
  const script = `const { watchEventLoop } = await import(${JSON.stringify(file)}); watchEventLoop();`;
  const args = "Deno" in globalThis ? ["eval", script] : ["--input-type=module", "-e", script];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number | null];
  assert.equal(code, 0);
});

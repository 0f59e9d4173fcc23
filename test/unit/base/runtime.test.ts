import assert from "node:assert/strict";
import { once } from "node:events";
import process from "node:process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  currentRuntime,
  residentBytes,
  watchEventLoop,
  type LoopDelay,
} from "../../../src/base/system/machine.ts";

test("the runtime is named as it is", () => {
  const { name, version } = currentRuntime();
  assert.equal(name, "Deno" in globalThis ? "deno" : "node");
  assert.match(version, /^\d+\.\d+\.\d+/);
});

test("resident memory is a plausible number of bytes", () => {
  assert.ok(residentBytes() > 5_000_000);
});

test("a blocked event loop is measured and reported once", async () => {
  const loop = watchEventLoop();
  try {
    let delay: LoopDelay | undefined;
    // The first tick after a look only marks the time.
    for (let rounds = 0; rounds < 50 && !(delay && delay.max >= 0.05); rounds++) {
      await sleep(30);
      const untilMs = performance.now() + 100;
      while (performance.now() < untilMs);
      await sleep(30);
      delay = loop.read();
    }
    assert.ok(delay && delay.max >= 0.05, `the longest delay was ${delay?.max} s`);
    assert.ok(delay.median <= delay.p99 && delay.p99 <= delay.max);
    assert.equal(loop.read(), undefined, "a delay is told of once");
  } finally {
    loop.stop();
  }
});

test("measuring does not keep a process alive", async () => {
  const { spawn } = await import("node:child_process");
  const file = new URL("../../../src/base/system/machine.ts", import.meta.url).href;
  const script = `const { watchEventLoop } = await import(${JSON.stringify(file)}); watchEventLoop();`;
  const args = "Deno" in globalThis ? ["eval", script] : ["--input-type=module", "-e", script];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number | null];
  assert.equal(code, 0);
});

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { oncePerFile } from "../../harness/guard.ts";
import { runProgram, runTable } from "./run-program.ts";
import { missingPython, python, pythonSdk } from "./toolchain.ts";

const skip = missingPython() ?? false;

/** Compiled files stay out of the repository; what one test compiled, the next one finds. */
const cacheFolder = oncePerFile(async () => {
  const path = await mkdtemp(join(tmpdir(), "agentd-python-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
});

for (const flavour of ["blocking", "asyncio"]) {
  test(`sdk python (${flavour}): every scenario has its outcome`, { skip }, async (context) => {
    const runner = join(import.meta.dirname, "runner.py");
    await runTable(
      context,
      `python-${flavour}`,
      (stage, names) => [python, "-W", "error", runner, stage, flavour, ...names],
      { PYTHONPATH: pythonSdk, PYTHONPYCACHEPREFIX: (await cacheFolder()).path },
    );
  });
}

test("sdk python: the web socket refuses what a server must not send", { skip }, async () => {
  const file = join(import.meta.dirname, "test_websocket.py");
  const env = { PYTHONPATH: pythonSdk, PYTHONPYCACHEPREFIX: (await cacheFolder()).path };
  const { status, stderr } = await runProgram([python, "-W", "error", file], { env });
  assert.equal(status, 0, stderr);
});

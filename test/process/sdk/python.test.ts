import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { runProgram, runTable } from "./run-program.ts";
import { missingPython, python, pythonSdk } from "./toolchain.ts";

const skip = missingPython() ?? false;

for (const flavour of ["blocking", "asyncio"]) {
  test(`sdk python (${flavour}): every scenario has its outcome`, { skip }, async (context) => {
    const cache = await mkdtemp(join(tmpdir(), "agentd-python-"));
    context.after(() => rm(cache, { recursive: true, force: true }));
    const runner = join(import.meta.dirname, "runner.py");
    await runTable(
      context,
      `python-${flavour}`,
      (stage, names) => [python, "-W", "error", runner, stage, flavour, ...names],
      { PYTHONPATH: pythonSdk, PYTHONPYCACHEPREFIX: cache },
    );
  });
}

test("sdk python: the web socket refuses what a server must not send", { skip }, async () => {
  const file = join(import.meta.dirname, "test_websocket.py");
  const env = { PYTHONPATH: pythonSdk, PYTHONDONTWRITEBYTECODE: "1" };
  const { status, stderr } = await runProgram([python, "-W", "error", file], { env });
  assert.equal(status, 0, stderr);
});

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Processes } from "../../../../src/agent/tools/process/processes.ts";
import { workspace } from "./call.ts";

test("a background command does not run the user's start file", async (t) => {
  const cwd = workspace(t);
  writeFileSync(join(cwd, ".bashrc"), "echo from-start-file\n");
  const processes = new Processes({ maxRunning: 1 });
  t.after(() => processes.close());
  const env = { PATH: "/usr/bin:/bin", HOME: cwd };
  const { id } = processes.start({ sessionId: "a", command: "echo up", cwd, env });
  await processes.wait(id, "a", { timeoutMs: 20_000, signal: new AbortController().signal });
  assert.equal(processes.poll(id, "a").output, "up\n");
});

/** The built program with and without a sandbox. */
import assert from "node:assert/strict";
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { it } from "node:test";
import { findSandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { agentd } from "../../harness/agentd.ts";
import { createHome } from "../../unit/config/home-folder.ts";

const found = await findSandbox();
const skip = found.sandbox ? false : "bubblewrap does not work here";

interface Doctor {
  readonly findings: readonly { readonly name: string; readonly status: string; readonly detail: string }[];
}

it("doctor says that commands run in a sandbox", { skip }, async () => {
  await using made = await createHome();
  const { stdout } = await agentd(["doctor", "--json"], { AGENTD_HOME: made.home, AGENTD_SANDBOX: "auto" });
  const finding = (JSON.parse(stdout) as Doctor).findings.find(({ name }) => name === "sandbox");
  assert.deepEqual([finding?.status, finding?.detail], ["ok", "commands run in bubblewrap"]);
});

it("doctor warns when the sandbox is off", async () => {
  await using made = await createHome();
  const { stdout } = await agentd(["doctor", "--json"], { AGENTD_HOME: made.home, AGENTD_SANDBOX: "off" });
  const finding = (JSON.parse(stdout) as Doctor).findings.find(({ name }) => name === "sandbox");
  assert.equal(finding?.status, "warn");
});

it("a gateway that requires a sandbox does not start without one, and says what to install", async () => {
  await using made = await createHome();
  const programs = join(made.home, "programs");
  await mkdir(programs);
  // A search path with this runtime alone.
  await symlink(process.execPath, join(programs, "node"));
  const env = { AGENTD_HOME: made.home, AGENTD_SANDBOX: "required", PATH: programs };
  const { code, stderr } = await agentd(["gateway", "--port", "0"], env);
  assert.notEqual(code, 0);
  assert.match(
    stderr,
    /terminal\.sandbox is "required", and bubblewrap \(the program bwrap\) is not installed/,
  );
});

it("a one-shot chat runs its commands in the sandbox and cannot read the keys", { skip }, async () => {
  await using made = await createHome({ ".env": "OPENAI_API_KEY=sk-agentd-canary-0123456789\n" });
  const words = [
    "chat",
    "run: P=$(printf '%s/.env' \"$AGENTD_HOME\"); rev $P; frobnicate; echo reached the end",
  ];
  const { stdout, stderr } = await agentd(words, { AGENTD_HOME: made.home, AGENTD_SANDBOX: "auto" }, "");
  assert.match(stdout + stderr, /reached the end/);
  assert.doesNotMatch(stdout + stderr, /yranac/);
});

/** The built program with and without a sandbox. */
import assert from "node:assert/strict";
import { mkdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { execFile, spawn } from "node:child_process";
import { describe, it } from "node:test";
import { findSandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
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

describe("a container without user namespaces", { skip }, () => {
  it("the gateway says once that commands run without a sandbox, and they run", async () => {
    await using made = await createHome();
    const gateway = await startWithoutNamespaces({ AGENTD_HOME: made.home, AGENTD_SANDBOX: "auto" });
    const key = /^API_SERVER_KEY=(.+)$/m.exec(await readFile(join(made.home, ".env"), "utf8"))?.[1];
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const health = await fetch(`${gateway.url}/health/detailed`, { headers });
    const { readiness } = (await health.json()) as { readiness: { checks: { sandbox: object } } };
    assert.match(
      JSON.stringify(readiness.checks.sandbox),
      /^\{"status":"ok","active":false,"detail":"Commands run without a sandbox: bubblewrap cannot start a sandbox here/,
    );
    const body = JSON.stringify({ messages: [{ role: "user", content: "run: echo still $((40 + 2))" }] });
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body });
    assert.match(await answer.text(), /still 42/);
    await gateway.stop();
    const warnings = gateway
      .output()
      .split("\n")
      .filter((line) => line.includes("without a sandbox"));
    assert.equal(warnings.length, 1, gateway.output());
    assert.match(warnings[0] as string, /bubblewrap cannot start a sandbox here: .*agentd doctor/);
  });

  it("doctor warns, and says what to do", async () => {
    await using made = await createHome();
    const { stdout } = await inContainer(["doctor", "--json"], {
      AGENTD_HOME: made.home,
      AGENTD_SANDBOX: "auto",
    });
    const finding = (JSON.parse(stdout) as Doctor).findings.find(({ name }) => name === "sandbox");
    assert.equal(finding?.status, "warn");
    assert.match(finding?.detail ?? "", /bubblewrap cannot start a sandbox here/);
  });

  it("a gateway that requires a sandbox does not start", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home, AGENTD_SANDBOX: "required" };
    const { code, stderr } = await inContainer(["gateway", "--port", "0"], env);
    assert.notEqual(code, 0);
    assert.match(stderr, /terminal\.sandbox is "required", and bubblewrap cannot start a sandbox here/);
  });
});

it("the health of a gateway says that commands run in a sandbox", { skip }, async () => {
  await using place = await createGatewayPlace({ AGENTD_SANDBOX: "auto" });
  const gateway = await place.start();
  const headers = { authorization: `Bearer ${await place.key()}` };
  const health = await fetch(`${gateway.url}/health/detailed`, { headers });
  const { readiness } = (await health.json()) as { readiness: { checks: { sandbox: object } } };
  const expected = { status: "ok", active: true, kind: "bubblewrap" };
  assert.partialDeepStrictEqual(readiness.checks.sandbox, expected);
  assert.match(gateway.stderr(), /commands run in a sandbox/);
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

/** The words that run the program as a container does that allows no user namespaces inside it. */
function withoutNamespaces(words: readonly string[]): readonly string[] {
  const container = [
    "--die-with-parent",
    "--unshare-user",
    "--disable-userns",
    "--bind",
    "/",
    "/",
    "--dev-bind",
    "/dev",
    "/dev",
  ];
  return [...container, "--", ...agentdCommand(...words)];
}

function inContainer(words: readonly string[], env: Readonly<Record<string, string>>): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { env: programEnvironment(env), timeout: 60_000 };
    execFile("bwrap", withoutNamespaces(words), options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

async function startWithoutNamespaces(env: Readonly<Record<string, string>>) {
  const child = spawn("bwrap", withoutNamespaces(["gateway", "--port", "0"]), {
    env: programEnvironment(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const take = (bytes: Buffer) => {
    output += bytes.toString();
    const url = /listens on (\S+)\n[\s\S]*try/.exec(output)?.[1];
    if (url !== undefined) resolve(url);
  };
  child.stdout.on("data", take);
  child.stderr.on("data", take);
  const ended = new Promise<void>((done) => child.once("close", () => done()));
  void ended.then(() => reject(new Error(`the gateway ended: ${output}`)));
  const stop = () => {
    child.kill("SIGTERM");
    return ended;
  };
  return { url: await promise, output: () => output, stop };
}

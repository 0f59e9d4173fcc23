/** How `agentd gateway` ends: what runs may end, and whoever asks hears that it ends. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createGatewayPlace, type GatewayPlace } from "../../harness/gateway.ts";
import { agentdCommand } from "../../harness/program.ts";
import { startTerminal, terminalIsMissing } from "../../harness/terminal.ts";

const POLL_MS = 50;

interface Running {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly runId: string;
  /** Lets the run end. */
  finish(): Promise<void>;
}

async function createPlace(): Promise<GatewayPlace> {
  const place = await createGatewayPlace();
  await writeFile(join(place.home, "config.yaml"), "approvals: { mode: yolo }\n");
  return place;
}

/** A run that works until it is let, over HTTP as any client's. */
async function startRun(context: TestContext, { url, key }: { readonly url: string; readonly key: string }) {
  const folder = await mkdtemp(join(tmpdir(), "agentd-drain-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const gate = join(folder, "gate");
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const input = `run: until [ -e ${gate} ]; do sleep 0.1; done; echo over`;
  const made = await fetch(`${url}/v1/runs`, { method: "POST", headers, body: JSON.stringify({ input }) });
  assert.equal(made.status, 202, await made.clone().text());
  const { run_id: runId } = (await made.json()) as { readonly run_id: string };
  const running: Running = { url, headers, runId, finish: () => writeFile(gate, "") };
  await until(async () => (await readRun(running)).tool_calls > 0);
  return running;
}

async function readRun({ url, headers, runId }: Running) {
  const run = (await (await fetch(`${url}/v1/runs/${runId}`, { headers })).json()) as {
    readonly status: string;
    readonly last_event: string | null;
  };
  return {
    ...run,
    tool_calls: run.last_event === "tool.started" || run.last_event === "tool.progress" ? 1 : 0,
  };
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

/** The last event of the run, followed from now to its end. */
async function lastEvent({ url, headers, runId }: Running): Promise<string | undefined> {
  const text = await (await fetch(`${url}/v1/runs/${runId}/events`, { headers })).text();
  return [...text.matchAll(/^event: (.+)$/gm)].at(-1)?.[1];
}

/** While the run is at work: whoever asks is sent elsewhere; then the run ends as it would have. */
async function assertDrains(running: Running): Promise<void> {
  const { url, headers } = running;
  const events = lastEvent(running);
  await until(async () => (await fetch(`${url}/health`)).status === 503);
  const body = JSON.stringify({ input: "hi" });
  const refused = await fetch(`${url}/v1/runs`, { method: "POST", headers, body });
  assert.equal(refused.status, 503);
  const { error } = (await refused.json()) as { readonly error: { readonly code: string } };
  assert.equal(error.code, "server_draining");
  assert.equal((await readRun(running)).status, "running");
  await running.finish();
  assert.equal(await events, "run.completed");
}

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
  test(`${signal} lets open runs end, and /health reports it meanwhile`, async (context) => {
    await using place = await createPlace();
    const gateway = await place.start();
    const running = await startRun(context, { url: gateway.url, key: await place.key() });
    const ended = gateway.kill(signal);
    await assertDrains(running);
    assert.equal(await ended, 0, gateway.stderr());
  });
}

test("a closing terminal sends its signal twice, and open runs still end", async (context) => {
  await using place = await createPlace();
  const gateway = await place.start();
  const running = await startRun(context, { url: gateway.url, key: await place.key() });
  const ended = gateway.kill("SIGHUP");
  await until(async () => (await fetch(`${gateway.url}/health`)).status === 503);
  void gateway.kill("SIGHUP");
  await assertDrains(running);
  assert.equal(await ended, 0, gateway.stderr());
});

test("a gateway whose terminal closes lets open runs end", { skip: terminalIsMissing }, async (context) => {
  await using place = await createPlace();
  const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
  const terminal = await startTerminal({
    command: agentdCommand("gateway", "--port", "0"),
    columns: 200,
    env,
  });
  const screen = await terminal.shows(/listens on \S+\n[\s\S]*try/);
  const url = /listens on (\S+)/.exec(screen)?.[1] ?? "";
  const running = await startRun(context, { url, key: await place.key() });
  await terminal[Symbol.asyncDispose]();
  await assertDrains(running);
  await until(async () =>
    fetch(`${url}/health`).then(
      () => false,
      () => true,
    ),
  );
});

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { scriptCommand } from "../../harness/program.ts";
import { KEY } from "../../harness/service.ts";
import { startExampleService } from "./examples.ts";
import { runProgram } from "./run-program.ts";
import { runners } from "./runner.ts";
import { scenarios } from "./scenarios.ts";
import { openStage } from "./stage.ts";

test("sdk typescript: every scenario has its outcome", async (context) => {
  await using open = await openStage("typescript");
  for (const { name, title, outcome } of scenarios) {
    // oxlint-disable-next-line no-await-in-loop -- in the order of the table
    await context.test(`${name}: ${title}`, async () => {
      const run = runners[name];
      assert.ok(run, `runner.ts has no function ${name}`);
      assert.deepEqual(await run(open.stage), outcome);
    });
  }
  assert.deepEqual(
    Object.keys(runners),
    scenarios.map(({ name }) => name),
  );
  for (const [proxy, count] of Object.entries(open.cuts())) assert.ok(count >= 2, `${proxy}: ${count} cuts`);
});

const root = join(import.meta.dirname, "../../..");

test("sdk typescript: the examples of its page do what they say", async (context) => {
  await using service = await startExampleService();
  const folder = await mkdtemp(join(tmpdir(), "agentd-examples-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const page = await readFile(join(root, "docs/typescript-client.md"), "utf8");
  const printed: Record<string, string> = {};
  for (const [heading, code] of programsOf(page)) {
    const file = join(folder, `${Object.keys(printed).length}.mts`);
    const program = code
      .replaceAll("http://127.0.0.1:8642", service.url)
      .replace("@agentd/agentd/client", join(root, "src/client/http.ts"))
      .replace("@agentd/agentd/gateway", join(root, "src/client/gateway.ts"));
    // oxlint-disable-next-line no-await-in-loop -- one run at a time
    await writeFile(file, program);
    // oxlint-disable-next-line no-await-in-loop -- one run at a time
    const { status, stdout, stderr } = await runProgram(scriptCommand(file), {
      env: { API_SERVER_KEY: KEY },
    });
    assert.equal(status, 0, stderr);
    printed[heading] = stdout;
  }
  assert.match(printed["Errors"] ?? "", /^401 \w+ /);
  assert.deepEqual(printed, {
    "The TypeScript client": "the answer\n",
    Streams: "the answer",
    "Runs and approvals": "ok: it ran",
    Errors: printed["Errors"],
    "The gateway": "ok: it ran\n",
  });
});

/** The first program below each heading of a page. */
function programsOf(page: string): readonly (readonly [heading: string, code: string])[] {
  return page.split(/^##? /m).flatMap((section) => {
    const [heading = ""] = section.split("\n");
    const code = /^```ts\n([^]*?)^```$/m.exec(section)?.[1];
    return code === undefined ? [] : [[heading, code] as const];
  });
}

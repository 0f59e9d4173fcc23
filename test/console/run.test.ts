import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import type { Run, RunAccepted, RunTrace } from "../../generated/http/client/types.gen.ts";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";
import { calling, saying, startModelServer } from "../harness/openai-server.ts";

const MODELS = [
  calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: "echo first-result" }) }),
  calling({ id: "call_2", name: "terminal", json: JSON.stringify({ command: "cat no-such-file" }) }),
  saying("All", " is done."),
];

async function startRun(shown: ConsoleTest, input: string): Promise<string> {
  const response = await shown.request("/v1/runs", { method: "POST", body: JSON.stringify({ input }) });
  assert.equal(response.status, 202, await response.clone().text());
  return ((await response.json()) as RunAccepted).id;
}

async function read<T>(shown: ConsoleTest, path: string): Promise<T> {
  return (await (await shown.request(path)).json()) as T;
}

function steps(page: Page) {
  return page.getByRole("list", { name: "Steps" }).getByRole("listitem");
}

test("the steps of a run cover its duration on the timeline without a gap, and their tokens add up", async () => {
  await using models = await startModelServer(MODELS);
  await using shown = await startConsole({ models });
  const page = await shown.open("/runs");
  const id = await startRun(shown, "do it in two steps");
  await page.getByRole("link", { name: "do it in two steps" }).click();
  await page.waitForURL(`**/runs/${id}`);
  await page.getByText("completed").waitFor();
  const trace = await read<RunTrace>(shown, `/v1/runs/${id}/trace`);
  await steps(page)
    .nth(trace.steps.length - 1)
    .waitFor();
  assert.equal(await steps(page).count(), trace.steps.length);
  const bars = await page.locator(".trace-bar").evaluateAll((all) =>
    all.map((bar) => {
      const { left, width } = (bar as HTMLElement).style;
      return [Number.parseFloat(left), Number.parseFloat(left) + Number.parseFloat(width)] as const;
    }),
  );
  let covered = 0;
  for (const [start, end] of bars.toSorted(([a], [b]) => a - b)) {
    assert.ok(start <= covered + 0.1, `a gap before ${start} % of ${JSON.stringify(bars)}`);
    covered = Math.max(covered, end);
  }
  assert.ok(Math.abs(covered - 100) < 0.1, `the steps end at ${covered} %`);
  const run = await read<Run>(shown, `/v1/runs/${id}`);
  const spent = trace.steps.reduce((sum, { usage }) => sum + (usage?.output_tokens ?? 0), 0);
  assert.equal(spent, run.usage?.output_tokens);
});

test("a step shows its input and output, and its address opens it again", async () => {
  await using models = await startModelServer(MODELS);
  await using shown = await startConsole({ models });
  const id = await startRun(shown, "do it in two steps");
  const page = await shown.open(`/runs/${id}`);
  await page.getByText("completed").waitFor();
  await page.getByRole("button", { name: /^Tool call terminal .*echo first-result/ }).click();
  await page.getByLabel("Input").getByText("echo first-result").waitFor();
  await page.getByLabel("Output").getByText("first-result").waitFor();
  await page.waitForURL("**?step=call_1*");
  await page.reload();
  await page.getByLabel("Output").getByText("first-result").waitFor();
  await page
    .getByRole("button", { name: /^Model call/ })
    .first()
    .click();
  await page.getByText("First output after").waitFor();
});

test("a run at work grows on the timeline, and stops on demand", async () => {
  const long = calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: "sleep 60" }) });
  await using models = await startModelServer([long]);
  await using shown = await startConsole({ models });
  const id = await startRun(shown, "wait for long");
  const page = await shown.open(`/runs/${id}`);
  await page
    .getByRole("button", { name: /^Tool call terminal/ })
    .getByText("running")
    .waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("cancelled").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
});

test("a run starts again with its whole prompt, in the session that the user chooses", async () => {
  await using models = await startModelServer(() => saying("Fine."));
  await using shown = await startConsole({ models });
  const prompt = `a long prompt ${"with many words ".repeat(40)}and its end`;
  const id = await startRun(shown, prompt);
  const page = await shown.open(`/runs/${id}`);
  await page.getByText("completed").waitFor();
  await page.getByRole("button", { name: "Run again" }).click();
  const dialog = page.getByRole("dialog", { name: "Run again" });
  assert.equal(await dialog.getByLabel("Prompt").inputValue(), prompt);
  await dialog.getByLabel("In", { exact: true }).selectOption("The same session");
  await dialog.getByRole("button", { name: "Start" }).click();
  await page.waitForURL((address) => address.pathname.startsWith("/runs/") && !address.pathname.endsWith(id));
  await page.getByText("completed").waitFor();
  const [first, again] = [
    await read<Run>(shown, `/v1/runs/${id}`),
    await read<Run>(shown, `/v1${new URL(page.url()).pathname}`),
  ];
  assert.equal(again.session_id, first.session_id);
  await page.getByRole("link", { name: first.session_id }).click();
  await page.waitForURL(`**/chat/${first.session_id}`);
});

test("the command that starts a run again works in a shell", async () => {
  await using models = await startModelServer(() => saying("Fine."));
  await using shown = await startConsole({ models });
  await shown.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const id = await startRun(shown, "say 'hello' and \"bye\"");
  const page = await shown.open(`/runs/${id}`);
  await page.getByText("completed").waitFor();
  await page.getByRole("button", { name: "Copy as curl" }).click();
  await page.getByText("The command is copied.").waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  const [, body = ""] = /-d '([\s\S]*)'$/.exec(command) ?? [];
  const sent = JSON.parse(body.replaceAll("'\\''", "'")) as { readonly input: string };
  assert.equal(sent.input, "say 'hello' and \"bye\"");
  assert.match(command, new RegExp(`^curl ${shown.url}/v1/runs `));
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import type { Run, RunAccepted } from "../../generated/http/client/types.gen.ts";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";
import { saying, startModelServer } from "../harness/openai-server.ts";

async function runToEnd(shown: ConsoleTest, input: string): Promise<Run> {
  const started = await shown.request("/v1/runs", { method: "POST", body: JSON.stringify({ input }) });
  const { id } = (await started.json()) as RunAccepted;
  // Its events end with it.
  await (await shown.request(`/v1/runs/${id}/events`)).text();
  return (await (await shown.request(`/v1/runs/${id}`)).json()) as Run;
}

function statOf(page: Page, name: string) {
  return page.getByLabel("Total").locator("div").filter({ hasText: name }).locator(".stat-value");
}

test("usage is the sum of the runs, in the numbers, the table and the table of each chart", async () => {
  await using models = await startModelServer((_, index) =>
    index === 2 ? { status: 400, body: '{"error":{"message":"no"}}' } : saying("A", " short", " answer."),
  );
  await using shown = await startConsole({ models });
  const page = await shown.open("/usage");
  await page.getByText("Nothing was used in this time").waitFor();
  const runs: Run[] = [];
  for (const input of ["one", "two", "three"]) runs.push(await runToEnd(shown, input));
  const sum = (valueOf: (usage: NonNullable<Run["usage"]>) => number) =>
    String(runs.reduce((all, { usage }) => all + (usage ? valueOf(usage) : 0), 0));
  const failed = runs.filter(({ status }) => status === "failed").length;
  assert.equal(failed, 1);
  await statOf(page, "Runs").getByText("3", { exact: true }).waitFor();
  await page.getByText("1 failed").waitFor();
  assert.equal(
    await statOf(page, "Input tokens").innerText(),
    sum((usage) => usage.input_tokens),
  );
  assert.equal(
    await statOf(page, "Output tokens").innerText(),
    sum((usage) => usage.output_tokens),
  );
  const row = page
    .getByRole("table", { name: "Usage by model" })
    .getByRole("row")
    .filter({ hasText: "local:test-model" });
  assert.equal(
    await row.getByRole("cell").nth(5).innerText(),
    sum((usage) => usage.output_tokens),
  );
  const chart = page.locator("figure").filter({ hasText: "Tokens a day" });
  await chart.locator("canvas").waitFor();
  await chart.getByText("As a table").click();
  const cells = await chart.getByRole("table").getByRole("row").last().getByRole("cell").allInnerTexts();
  assert.equal(
    cells.at(-1),
    sum((usage) => usage.input_tokens + usage.output_tokens),
  );
});

test("usage is grouped and cut to a time by the address, and names the budgets of the day", async () => {
  await using models = await startModelServer(() => saying("Fine."));
  await using shown = await startConsole({ models, config: { agent: { day_token_budget: 1_000_000 } } });
  await runToEnd(shown, "one");
  const page = await shown.open("/usage?by=source&from=30");
  await page.getByRole("table", { name: "Usage by source" }).getByText("HTTP API").waitFor();
  await page.getByRole("button", { name: "By key" }).click();
  await page.waitForURL("**by=key*");
  await page.getByRole("table", { name: "Usage by key" }).getByText("default").waitFor();
  assert.equal(await page.getByRole("button", { name: "30 days" }).getAttribute("aria-pressed"), "true");
  await page.getByRole("table", { name: "Budgets" }).getByText("Tokens of default").waitFor();
});

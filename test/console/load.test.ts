import assert from "node:assert/strict";
import { test } from "node:test";
import { composer, conversation, send, startConsole, type ConsoleTest } from "../harness/browser.ts";
import { addLongSession } from "../harness/console-sessions.ts";
import { saying, startModelServer } from "../harness/openai-server.ts";

/** Sizes, not times: those are rows of the bench. */
const MAX_NODES = 8_000;
const MAX_GROWTH_BYTES = 5_000_000;

const nodes = (shown: ConsoleTest) => shown.page.evaluate(() => document.querySelectorAll("*").length);

async function heapBytes(shown: ConsoleTest): Promise<number> {
  const debug = await shown.context.newCDPSession(shown.page);
  await debug.send("HeapProfiler.collectGarbage");
  const { usedSize } = await debug.send("Runtime.getHeapUsage");
  await debug.detach();
  return usedSize;
}

test("10,000 messages stay within budget: few nodes in the page, at the end, while scrolling up and at the beginning", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await composer(page).waitFor();
  const id = await addLongSession(shown, 10_000);
  await page.goto(`/chat/${id}`);
  const box = conversation(page);
  await box.getByText("Message 9999").waitFor();
  assert.ok((await nodes(shown)) <= MAX_NODES, `${await nodes(shown)} nodes at the end`);
  // At the beginning of what is loaded, the page loads what is before it, down to the first message.
  const { most, kept } = await box.evaluate(async (log) => {
    let most = 0;
    let kept = 0;
    while (log.querySelector(".older")) {
      log.scrollTop = 0;
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      most = Math.max(most, document.querySelectorAll("*").length);
      if (log.scrollTop > 1_000) kept += 1;
    }
    log.scrollTop = 0;
    return { most, kept };
  });
  assert.ok(most <= MAX_NODES, `${most} nodes while scrolling`);
  assert.ok(kept >= 40, `what was read stayed in its place ${kept} times`);
  await box.getByText("Message 0", { exact: false }).first().waitFor();
  await box.getByText("Message 1", { exact: true }).waitFor();
  assert.ok((await nodes(shown)) <= MAX_NODES, `${await nodes(shown)} nodes at the beginning`);
});

test("an answer of 5,000 pieces arrives whole, and the page stays usable meanwhile", async () => {
  const pieces = Array.from({ length: 5_000 }, (_, index) => `word${index} `);
  await using models = await startModelServer(() => saying(...pieces));
  await using shown = await startConsole({ models });
  const page = await shown.open();
  await send(page, "a long answer");
  await conversation(page).getByText("word10 ").waitFor();
  await composer(page).fill("typed while it streams");
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  const text = await conversation(page).locator(".message-agent .markdown").innerText();
  assert.equal(text.trim(), pieces.join("").trim());
  assert.equal(await composer(page).inputValue(), "typed while it streams");
});

test("fifty changes of session leave no memory behind", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await composer(page).waitFor();
  const ids = [await addLongSession(shown, 200), await addLongSession(shown, 200)];
  const visit = async (id: string) => {
    await page.evaluate((to) => history.pushState({ key: String(Math.random()) }, "", to), `/chat/${id}`);
    await page.evaluate(() => dispatchEvent(new PopStateEvent("popstate")));
    await conversation(page).getByText("Message 199").waitFor();
  };
  for (let round = 0; round < 6; round++) await visit(ids[round % 2]!);
  const before = await heapBytes(shown);
  for (let round = 0; round < 50; round++) await visit(ids[round % 2]!);
  const growth = (await heapBytes(shown)) - before;
  assert.ok(growth <= MAX_GROWTH_BYTES, `${growth} bytes more`);
});

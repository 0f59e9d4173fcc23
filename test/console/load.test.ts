import assert from "node:assert/strict";
import { test } from "node:test";
import { composer, conversation, send, startConsole, type ConsoleTest } from "../harness/browser.ts";
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

/** Adds a long conversation to the session that the page shows, as a host does that brings its own history. */
async function longSession(shown: ConsoleTest, messages: number): Promise<string> {
  return shown.page.evaluate(async (count) => {
    const headers = { "x-agentd-console": localStorage.getItem("agentd.console.token") ?? "" };
    const response = await fetch("/api/auth/ws-ticket", { method: "POST", headers });
    const { ticket } = (await response.json()) as { ticket: string };
    const socket = new WebSocket(`${location.origin.replace("http", "ws")}/api/ws?ticket=${ticket}`);
    await new Promise((resolve) => (socket.onopen = resolve));
    const seeds = Array.from({ length: count }, (_, index) => ({
      role: index % 2 === 0 ? "user" : "assistant",
      text: `**Message ${index}**\n\n- with a list\n- and \`code\`\n\nand a paragraph of some length that wraps on a phone.`,
    }));
    const made = new Promise<string>((resolve) => {
      socket.onmessage = ({ data }) => {
        const { id, result } = JSON.parse(String(data)) as { id?: string; result?: { session_id: string } };
        if (id === "seed" && result) resolve(result.session_id);
      };
    });
    const params = { messages: seeds, title: "A long conversation" };
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: "seed", method: "session.create", params }));
    const sessionId = await made;
    socket.close();
    return sessionId;
  }, messages);
}

test("a conversation of 1,000 messages keeps few nodes in the page, at its end and while scrolling up", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await composer(page).waitFor();
  const id = await longSession(shown, 1_000);
  await page.goto(`/chat/${id}`);
  await conversation(page).getByText("Message 999").waitFor();
  assert.ok((await nodes(shown)) <= MAX_NODES, `${await nodes(shown)} nodes at the end`);
  const box = conversation(page);
  for (let step = 0; step < 20; step++) {
    await box.evaluate((element) => void (element.scrollTop -= 4_000));
    await page.evaluate(
      () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
    );
    assert.ok((await nodes(shown)) <= MAX_NODES, `${await nodes(shown)} nodes`);
  }
  await box.evaluate((element) => void (element.scrollTop = 0));
  await box.getByText("Message 0", { exact: true }).waitFor();
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
  const ids = [await longSession(shown, 200), await longSession(shown, 200)];
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

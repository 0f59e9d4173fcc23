import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { composer, conversation, send, startConsole } from "../harness/browser.ts";

/** Sends a prompt and waits for its answer and the end of the turn. */
async function ask(page: Page, text: string): Promise<void> {
  const answers = conversation(page).locator(".message-agent");
  const before = await answers.count();
  await send(page, text);
  await answers.nth(before).waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
}

const prompts = (page: Page) => conversation(page).locator(".message-user .message-text").allInnerTexts();

test("a conversation is forked at an answer, before and after a reload", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await ask(page, "first");
  await ask(page, "second");
  const origin = new URL(page.url()).pathname;
  const fork = async () => {
    const answer = conversation(page).locator(".message-agent").first();
    await answer.hover();
    await answer.getByRole("button", { name: "Fork here" }).click();
    await page.waitForURL((url) => url.pathname !== origin);
    await conversation(page).getByText("first", { exact: true }).waitFor();
    assert.deepEqual(await prompts(page), ["first"]);
  };
  await fork();
  await ask(page, "another way");
  assert.deepEqual(await prompts(page), ["first", "another way"]);
  await page.goto(origin);
  await conversation(page).getByText("second", { exact: true }).waitFor();
  assert.deepEqual(await prompts(page), ["first", "second"], "the origin stays");
  await fork();
});

test("a prompt is edited and sent again, in place of what followed", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  for (const text of ["first", "second", "third"]) await ask(page, text);
  const edit = async (index: number) => {
    const prompt = conversation(page).locator(".message-user").nth(index);
    await prompt.hover();
    await prompt.getByRole("button", { name: "Edit" }).click();
    await page.getByText("What you send replaces this prompt and everything after it.").waitFor();
  };
  await edit(1);
  assert.equal(await composer(page).inputValue(), "second");
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await composer(page).inputValue(), "");
  await edit(1);
  await send(page, "second, but better");
  await conversation(page).getByText("second, but better", { exact: true }).waitFor();
  await conversation(page).getByText("third", { exact: true }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  assert.deepEqual(await prompts(page), ["first", "second, but better"]);
  await page.reload();
  await conversation(page).getByText("second, but better", { exact: true }).waitFor();
  assert.deepEqual(await prompts(page), ["first", "second, but better"]);
});

test("the last prompt is undone, and comes back into the composer", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await ask(page, "first");
  await ask(page, "second");
  await page.getByRole("button", { name: "Undo the last prompt" }).click();
  await conversation(page).getByText("second", { exact: true }).waitFor({ state: "detached" });
  assert.deepEqual(await prompts(page), ["first"]);
  assert.equal(await composer(page).inputValue(), "second");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { conversation, send, startConsole, type ConsoleTest } from "../harness/browser.ts";
import { calling, saying, startModelServer, type ModelReply } from "../harness/openai-server.ts";

interface Message {
  readonly role: string;
  readonly text: string;
}

async function promptsOf(shown: ConsoleTest): Promise<readonly string[]> {
  const id = decodeURIComponent(new URL(shown.page.url()).pathname.split("/").at(-1) ?? "");
  const response = await shown.request(`/v1/sessions/${id}/messages?order=asc&limit=100`);
  const { data } = (await response.json()) as { readonly data: readonly Message[] };
  return data.filter(({ role }) => role === "user").map(({ text }) => text);
}

const command = (json: object) => calling({ id: "call_1", name: "terminal", json: JSON.stringify(json) });
const streaming: ModelReply = { pieces: [{ text: "Half an answer" }, { hang: true }] };

/** Where the gateway is killed: what the page shows then, and what the model answers up to there. */
const STAGES: readonly { readonly name: string; readonly first: ModelReply; readonly shown: RegExp }[] = [
  { name: "before the model answers", first: { pieces: [{ hang: true }] }, shown: /^the prompt$/ },
  { name: "in the middle of the answer", first: streaming, shown: /Half an answer/ },
  { name: "while a command runs", first: command({ command: "sleep 20; echo ran" }), shown: /sleep 20/ },
  { name: "after the answer", first: saying("The whole answer"), shown: /The whole answer/ },
];

for (const { name, first, shown: visible } of STAGES) {
  test(`a kill of the gateway ${name} loses and doubles no message on the page`, async () => {
    // By what it is asked: the kill may come before the first request.
    await using models = await startModelServer(({ body }) =>
      JSON.stringify(body.messages).includes("the next prompt") ? saying("The answer after") : first,
    );
    await using shown = await startConsole({ models });
    const page = await shown.open();
    await send(page, "the prompt");
    await page.waitForURL(/\/chat\/(?!new)/);
    await conversation(page).getByText(visible).first().waitFor();
    await shown.kill();
    await page.getByText("The gateway does not answer.").waitFor();
    await shown.restart();
    await send(page, "the next prompt");
    await conversation(page).getByText("The answer after").last().waitFor();
    await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
    const prompts = await promptsOf(shown);
    assert.deepEqual(prompts, ["the prompt", "the next prompt"]);
    const users = conversation(page).locator(".message-user .message-text");
    assert.deepEqual(await users.allInnerTexts(), prompts, "the page shows what is stored");
    await page.reload();
    await conversation(page).getByText("The answer after").last().waitFor();
    assert.deepEqual(await users.allInnerTexts(), prompts, "and so does a new page");
  });
}

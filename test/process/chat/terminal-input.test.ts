/** What a person drops, pastes and looks up at a real terminal. */
import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createChatPlace, type Answers } from "../../harness/chat-terminal.ts";
import { calling, saying } from "../../harness/openai-server.ts";
import { terminalIsMissing } from "../../harness/terminal.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

const answers: Answers = (last, { messages }) => {
  if (messages.at(-1)?.["role"] === "tool") return saying("Listed.");
  if (last.includes("list")) {
    return calling({ id: "c1", name: "terminal", json: JSON.stringify({ command: "seq 1 42" }) });
  }
  if (last.includes("count")) return { pieces: [{ text: "one, two, three" }, { hang: true }] };
  if (last === "hello") {
    const usage = { prompt_tokens: 6_400, completion_tokens: 10, total_tokens: 6_410 };
    return { pieces: [{ text: "Hello." }, { finish: "stop" }, { usage }] };
  }
  const images = JSON.stringify(messages).match(/data:image\/png;base64,/g)?.length ?? 0;
  return saying(`I see ${images} image and ${last.length} characters.`);
};
const options = { skip: terminalIsMissing, timeout: 400_000 };

test(
  "a dropped image reaches the model, a long paste is one label, and a later chat knows the prompts",
  options,
  async () => {
    await using place = await createChatPlace(answers);
    await writeFile(join(place.folder, "my pic.png"), PNG);
    {
      await using terminal = await place.chat();
      await terminal.shows(/local:test-model/);
      await terminal.type("what is ");
      await terminal.paste(`'${join(place.folder, "my pic.png")}'`);
      await terminal.shows(/^ {2}image my pic\.png[\s\S]*^› what is *$/m);
      await terminal.type("this?");
      await terminal.press("Enter");
      await terminal.shows(/Sent with my pic\.png[\s\S]*I see 1 image/);

      await terminal.paste(Array.from({ length: 12 }, (_, index) => `line ${index}`).join("\n"));
      await terminal.shows(/^› \[12 lines pasted\]$/m);
      await terminal.press("C-u");
      await terminal.shows(/^› write a prompt/m);

      await terminal.type("list");
      await terminal.press("Enter");
      const listed = await terminal.shows(/Listed\.[\s\S]*ctrl-d leaves/);
      assert.match(listed, /… 32 more lines \(ctrl-o shows the rest\)/);
      await terminal.press("C-o");
      await terminal.shows(/▌ terminal[\s\S]*esc closes {2}1-\d+ of 44/);
      await terminal.press("End");
      await terminal.shows(/^ {2}42$/m);
      await terminal.press("Escape");
      await terminal.shows(/ctrl-d leaves/);

      await terminal.type("?");
      await terminal.shows(/▌ keys[\s\S]*shift-tab[\s\S]*ctrl-d: leave[\s\S]*esc closes/);
      await terminal.press("q");
      await terminal.type("/help");
      await terminal.press("Enter");
      await terminal.shows(/▌ help[\s\S]*\/export[\s\S]*esc closes/);
      await terminal.press("Escape");
      await terminal.shows(/\? keys[\s\S]*ctrl-d leaves/);
      await terminal.press("C-d");
      assert.equal(await terminal.ended(), 0);
    }
    assert.equal((await stat(join(place.home, "chat-history"))).mode & 0o777, 0o600);
    assert.match(await readFile(join(place.home, "chat-history"), "utf8"), /"list"/);
    await using later = await place.chat([], {
      env: { EDITOR: `sh -c 'echo edited in an editor > "$1"' sh` },
    });
    await later.shows(/ctrl-d leaves/);
    await later.press("C-r");
    await later.type("lis");
    await later.shows(/▌ prompts {2}lis▏\n\n {2}› list$/m);
    await later.press("Enter");
    await later.shows(/^› list$/m);
    await later.press("C-g");
    await later.shows(/^› edited in an editor$/m);
    await later.press("C-l");
    await later.shows(/^› edited in an editor$/m);
    await later.press("C-c");
    await later.press("C-d");
    assert.equal(await later.ended(), 0);
  },
);

test("an interrupted turn does not empty the context that the status line shows", options, async () => {
  await using place = await createChatPlace(answers);
  await using terminal = await place.chat();
  await terminal.shows(/local:test-model answers\. \/model chooses another one\.[\s\S]*Try: /);
  await terminal.type("hello");
  await terminal.press("Enter");
  await terminal.shows(/Hello\.[\s\S]*context 5% of[\s\S]*ctrl-d leaves/);
  await terminal.type("count");
  await terminal.press("Enter");
  await terminal.shows(/one, two, three[\s\S]*ctrl-c interrupts/);
  await terminal.press("C-c");
  const after = await terminal.shows(/interrupted[\s\S]*ctrl-d leaves/);
  assert.match(after, /context 5% of/);
  await terminal.press("C-d");
  assert.equal(await terminal.ended(), 0);
});

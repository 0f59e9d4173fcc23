/** `agentd chat` as a person sees it: in a pseudo-terminal, with keys, and what stands on the screen. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createChatPlace, pressUntil, type Answers } from "../../harness/chat-terminal.ts";
import { calling, saying } from "../../harness/openai-server.ts";
import { terminalIsMissing } from "../../harness/terminal.ts";

const skip = terminalIsMissing;

const answers: Answers = (last, { messages }) => {
  if (messages.at(-1)?.["role"] === "tool") {
    const asked = messages.findLast(({ role }) => role === "user")?.["content"];
    return saying(JSON.stringify(asked).includes("colour") ? "So it shall be blue." : "The folder is gone.");
  }
  if (last.includes("clean up")) {
    return calling({ id: "c1", name: "terminal", json: JSON.stringify({ command: "rm -rf build" }) });
  }
  if (last.includes("colour")) {
    const question = { question: "Which colour do you like?", choices: ["red", "blue"] };
    return calling({ id: "c2", name: "clarify", json: JSON.stringify({ questions: [question] }) });
  }
  if (last.includes("count")) return { pieces: [{ text: "one, two, three" }, { hang: true }] };
  return saying(`You said **${last}**.`);
};

test(
  "a turn with an approval, a clarification, an interrupt, and a resume",
  { skip, timeout: 400_000 },
  async () => {
    await using place = await createChatPlace(answers);
    mkdirSync(join(place.folder, "build"));
    let resume = "";
    {
      await using terminal = await place.chat();
      await terminal.shows(/local:test-model/);
      await terminal.type("clean up");
      await terminal.press("Enter");

      const card = await terminal.shows(/1 {2}allow once[\s\S]*esc denies/);
      assert.match(card, /^› clean up$/m);
      assert.match(card, /^\? terminal {2}.*waits for your answer$/m);
      assert.match(card, /^▌ approval {2}terminal asks to run/m);
      assert.match(card, /^ {4}rm -rf build$/m);
      assert.ok(existsSync(join(place.folder, "build")));
      await pressUntil(terminal, "Up", /› 1 {2}allow once/);
      await terminal.press("Enter");
      const done = await terminal.shows(/The folder is gone\.[\s\S]*ctrl-d leaves/);
      assert.match(done, /^✓ terminal {2}/m);
      assert.doesNotMatch(done, /▌ approval/);
      assert.ok(!existsSync(join(place.folder, "build")));

      await terminal.type("ask me for a colour");
      await terminal.press("Enter");
      const question = await terminal.shows(/2 {2}blue[\s\S]*esc skips/);
      assert.match(question, /^ {2}Which colour do you like\?$/m);
      await pressUntil(terminal, "Down", /› 2 {2}blue/);
      await terminal.press("Enter");
      await terminal.shows(/So it shall be blue\.[\s\S]*ctrl-d leaves/);

      await terminal.type("count");
      await terminal.press("Enter");
      await terminal.shows(/one, two, three[\s\S]*ctrl-c interrupts/);
      await terminal.press("C-c");
      const interrupted = await terminal.shows(/interrupted[\s\S]*ctrl-d leaves/);
      assert.match(interrupted, /^ {2}one, two, three$/m);

      await terminal.press("C-c");
      await terminal.shows("ctrl-c again leaves");
      await terminal.press("C-c");
      assert.equal(await terminal.ended(), 0);
      const history = await terminal.history();
      resume = /agentd chat --resume (\S+)/.exec(history)?.[1] ?? "";
      assert.notEqual(resume, "");
      for (const once of ["› clean up", "The folder is gone.", "So it shall be blue.", "one, two, three"]) {
        assert.equal(history.split(once).length, 2, `${once} stands on the screen once:\n${history}`);
      }
    }
    await using terminal = await place.chat(["--resume", resume]);
    const resumed = await terminal.shows(/one, two, three[\s\S]*ctrl-d leaves/);
    assert.match(resumed, /^› count$/m);
    const whole = await terminal.history();
    assert.match(whole, /^› clean up$/m);
    assert.match(whole, /The folder is gone\./);
    await terminal.type("are you still there?");
    await terminal.press("Enter");
    await terminal.shows(/You said are you still there\?\.[\s\S]*ctrl-d leaves/);
    await terminal.press("C-d");
    assert.equal(await terminal.ended(), 0);
  },
);

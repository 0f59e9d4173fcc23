/** Files named with @, and shell commands, at a real terminal. */
import assert from "node:assert/strict";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createChatPlace, type Answers } from "../../harness/chat-terminal.ts";
import { saying } from "../../harness/openai-server.ts";
import { terminalIsMissing } from "../../harness/terminal.ts";

const answers: Answers = (last) =>
  saying(last.includes("canary of the file") ? "I read it." : "I read nothing.");
const options = { skip: terminalIsMissing, timeout: 400_000 };

test("a file found by its name behind @ is read by the model", options, async () => {
  await using place = await createChatPlace(answers);
  await mkdir(join(place.folder, "src"));
  await writeFile(join(place.folder, "src", "main.py"), "# canary of the file\n");
  await using terminal = await place.chat();
  await terminal.shows(/ctrl-d leaves/);
  await terminal.type("explain @main");
  await terminal.shows(/main\.py +src/);
  await terminal.press("Tab");
  await terminal.shows(/› explain @file:src\/main\.py/);
  await terminal.press("Enter");
  await terminal.shows(/I read it\./);
});

test("a shell command runs once the configuration allows it, and says how before", options, async () => {
  await using place = await createChatPlace(answers);
  {
    await using terminal = await place.chat();
    await terminal.shows(/ctrl-d leaves/);
    await terminal.type("!echo canary-$((40+2))");
    await terminal.press("Enter");
    await terminal.shows(/Shell commands are off\. Run `agentd config set gateway\.shell_exec local`/);
  }
  await appendFile(join(place.home, "config.yaml"), "gateway:\n  shell_exec: local\n");
  await using terminal = await place.chat();
  await terminal.shows(/ctrl-d leaves/);
  await terminal.type("!echo canary-$((40+2))");
  await terminal.press("Enter");
  const shown = await terminal.shows(/canary-42/);
  assert.match(shown, /✓ ! {2}echo canary/);
});

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { startTestService, type TestService } from "../../harness/service.ts";
import { shown, socketOf, startChat, type TestChat } from "./session.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

interface Place extends AsyncDisposable {
  readonly folder: string;
  readonly one: TestChat;
}

/** A chat in a folder with `my pic.png`, `b.png` and `notes.txt`. */
async function openPlace(service: TestService): Promise<Place> {
  const folder = join(service.home, "work");
  await mkdir(folder);
  await Promise.all([
    writeFile(join(folder, "my pic.png"), PNG),
    writeFile(join(folder, "b.png"), PNG),
    writeFile(join(folder, "notes.txt"), "text"),
  ]);
  const one = await startChat(socketOf(service), { kind: "new", cwd: folder });
  return { folder, one, [Symbol.asyncDispose]: () => one[Symbol.asyncDispose]() };
}

const echo = () => startTestService({ script: ({ user }) => ({ text: `You said ${user}` }) });
const names = (one: TestChat) => one.state().composer.attachments.map(({ name }) => name);

test("a dropped image is attached, its path leaves the composer, and the prompt takes the image along", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  const { one, folder } = place;
  const pasted = `'${join(folder, "my pic.png")}'`;
  one.chat.drop(pasted);
  const [image] = await one.until(
    ({ composer }) => composer.attachments.length === 1 && composer.attachments,
  );
  assert.equal(image?.name, "my pic.png");
  const { prefill } = one.state().composer;
  assert.deepEqual([prefill?.text, prefill?.replaces], ["", pasted]);
  one.chat.submit("what is it?");
  await one.answered("assistant: You said what is it?");
  assert.deepEqual(names(one), []);
  assert.ok(shown(one.state()).includes("notice: Sent with my pic.png"), shown(one.state()).join("\n"));
});

test("several dropped images are attached at once, and the words behind them stay in the composer", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  const { one, folder } = place;
  one.chat.drop(`${join(folder, "b.png")} ${join(folder, "my\\ pic.png")} compare these`);
  await one.until(({ composer }) => composer.prefill);
  assert.deepEqual(names(one), ["b.png", "my pic.png"]);
  assert.equal(one.state().composer.prefill?.text, "compare these");
});

test("a prompt that is sent right after a drop has the image once, and not its path", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  const { one, folder } = place;
  const path = join(folder, "b.png");
  one.chat.drop(path);
  one.chat.submit(`${path} what is it?`);
  await one.answered(/^assistant: You said\s+what is it\?$/);
  assert.ok(shown(one.state()).includes("notice: Sent with b.png"));
});

test("an image alone is sent without a text", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  const { one, folder } = place;
  one.chat.submit("");
  one.chat.submit(`/image ${join(folder, "b.png")}`);
  await one.until(({ composer }) => composer.attachments.length === 1);
  one.chat.submit("");
  await one.answered("assistant: You said [User attached image: b.png]");
});

test("/image attaches a file and sends the text after its path; a file that is not an image says so", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  const { one } = place;
  one.chat.submit("/image b.png describe it");
  await one.answered("assistant: You said describe it");
  for (const [command, said] of [
    ["/image notes.txt", /Cannot attach notes\.txt: it is not an image/],
    ["/image", /Name an image: \/image PATH/],
  ] as const) {
    one.chat.submit(command);
    await one.until((state) => shown(state).some((line) => said.test(line)));
  }
  assert.deepEqual(names(one), []);
});

test("a dropped file that is not an image is named to the agent as a file", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  const { one, folder } = place;
  const path = join(folder, "notes.txt");
  one.chat.submit(`${path} summarise it`);
  await one.answered(`assistant: You said [User attached file: ${path}]\nsummarise it`);
});

test("a typed path that does not exist is a prompt like any other", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  place.one.chat.submit("/no/such/file.png is missing");
  await place.one.answered("assistant: You said /no/such/file.png is missing");
});

test("the last attached image is removed again", async () => {
  await using service = await echo();
  await using place = await openPlace(service);
  const { one, folder } = place;
  one.chat.drop(`${join(folder, "b.png")} ${join(folder, "my\\ pic.png")}`);
  await one.until(({ composer }) => composer.attachments.length === 2);
  one.chat.detachImage();
  await one.until(({ composer }) => composer.attachments.length === 1);
  assert.deepEqual(names(one), ["b.png"]);
});

test("a clipboard without an image says so, and how else to attach one", async () => {
  await using service = await startTestService();
  await using one = await startChat(socketOf(service));
  one.chat.pasteImage();
  await one.until((state) =>
    shown(state).some((line) => /clipboard.*\/image PATH attaches a file/i.test(line)),
  );
});

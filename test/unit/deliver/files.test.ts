/** Files that answers name: which of them are sent, and their bytes from the answer to the last attempt. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { linkSync } from "node:fs";
import { mkdir, mkdtemp, readdir, realpath, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { registerSecret } from "../../../src/base/observe.ts";
import { protectHome } from "../../../src/base/system/own-files.ts";
import { OutboundFiles } from "../../../src/deliver/outbox/files.ts";
import {
  answerPayload,
  messagePayload,
  readMessage,
  sendWithFiles,
  type Delivery,
  type SendOutcome,
} from "../../../src/deliver/target.ts";
import { enqueue, openDispatch, reached, row, TestTarget } from "./dispatching.ts";

async function openHome(t: TestContext) {
  const root = await realpath(await mkdtemp(join(tmpdir(), "agentd-files-")));
  t.after(() => rm(root, { recursive: true, force: true }));
  const home = join(root, "home");
  const workspace = join(home, "workspace");
  const cwd = join(root, "project");
  await Promise.all([workspace, cwd].map((folder) => mkdir(folder, { recursive: true })));
  const files = new OutboundFiles({ agentHome: home, workspace });
  const put = async (path: string, content: string | Uint8Array = "content") => {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
    return path;
  };
  const stage = (text: string, from: string | null = cwd) =>
    files.stage({ id: "out_1", text, cwd: from, refusal: undefined });
  return { root, home, workspace, cwd, files, put, stage };
}

test("a line MEDIA:path sends a file of the working folder or the workspace, and leaves the text", async (t) => {
  const { cwd, workspace, files, put, stage } = await openHome(t);
  const report = await put(join(cwd, "out", "report.pdf"), "%PDF-1.7");
  await put(join(workspace, "chart"), Buffer.from("89504e470d0a1a0a00", "hex"));
  const text = `Here it is.\n\nMEDIA:${report}\n- MEDIA: ${join(workspace, "chart")}\n\`MEDIA:out/report.pdf\`\nBye.`;
  const staged = await stage(text);
  assert.equal(staged.text, "Here it is.\n\nBye.");
  assert.deepEqual(
    staged.files.map(({ name, type, sizeBytes }) => [name, type, sizeBytes]),
    [
      ["report.pdf", "application/pdf", 8],
      ["chart", "image/png", 9],
      ["report.pdf", "application/pdf", 8],
    ],
  );
  const [first] = files.open("out_1", staged.files);
  assert.equal(Buffer.from((await first?.read()) ?? []).toString(), "%PDF-1.7");
});

test("words about MEDIA, and code that shows such a line, send nothing", async (t) => {
  const { cwd, put, stage } = await openHome(t);
  await put(join(cwd, "a.txt"));
  const text = "Write MEDIA:a.txt to send it.\n```\nMEDIA:a.txt\n```\nMEDIA:";
  assert.deepEqual(await stage(text), { text, files: [] });
});

test("a file that must not leave stays a line of text with the reason", async (t) => {
  const { root, home, workspace, cwd, put, stage } = await openHome(t);
  t.after(protectHome(home));
  registerSecret("canary-of-the-file-test");
  await put(join(root, "elsewhere.txt"));
  await symlink(join(root, "elsewhere.txt"), join(cwd, "link.txt"));
  await symlink(root, join(workspace, "up"));
  await put(join(home, "config.yaml"), "home: file");
  linkSync(join(home, "config.yaml"), join(cwd, "hard.yaml"));
  execFileSync("mkfifo", [join(cwd, "pipe")]);
  await mkdir(join(cwd, "folder"));
  await put(join(cwd, "empty.txt"), "");
  await put(join(cwd, "big.bin"), Buffer.alloc(10 * 1024 * 1024 + 1));
  await put(join(cwd, "secret.csv"), "key\ncanary-of-the-file-test\n");
  const table = {
    "/etc/passwd": "it is outside the working folder and the workspace",
    "../elsewhere.txt": "it is outside the working folder and the workspace",
    "link.txt": "it is outside the working folder and the workspace",
    [join(workspace, "up", "elsewhere.txt")]: "it is outside the working folder and the workspace",
    [join(home, "config.yaml")]: "it is outside the working folder and the workspace",
    "hard.yaml": "it belongs to the service",
    [await put(join(cwd, ".env"))]: "it is hidden",
    [await put(join(cwd, ".git", "config"))]: "it is hidden",
    [await put(join(cwd, "server.PEM"))]: "it may be a key",
    [await put(join(cwd, "id_ed25519"))]: "it may be a key",
    [await put(join(cwd, "credentials.json"))]: "it may be a key",
    "missing.txt": "the file does not exist",
    folder: "it is not a file",
    pipe: "it is not a file",
    "empty.txt": "it is empty",
    "big.bin": "it has 10.1 MB; the limit is 10 MB",
    "secret.csv": "it contains a secret",
    [`${"x".repeat(5_000)}`]: "it is not a path",
    "a\0b": "it is not a path",
  };
  for (const [path, reason] of Object.entries(table)) {
    const { text, files } = await stage(`See:\nMEDIA:${path}`);
    assert.equal(text, `See:\nMEDIA:${path} (not sent: ${reason})`);
    assert.deepEqual(files, []);
  }
});

test("the service's own files are not sent even when the working folder contains its home", async (t) => {
  const { root, home, workspace, put, stage } = await openHome(t);
  await put(join(home, "state.db"), "rows");
  await put(join(workspace, "fine.txt"));
  const { text, files } = await stage(
    `MEDIA:${join(home, "state.db")}\nMEDIA:${join(workspace, "fine.txt")}`,
    root,
  );
  assert.match(text, /state\.db \(not sent: it belongs to the service\)$/);
  assert.deepEqual(
    files.map(({ name }) => name),
    ["fine.txt"],
  );
});

test("an answer sends at most ten files and 20 MB", async (t) => {
  const { cwd, put, stage } = await openHome(t);
  for (let at = 0; at < 11; at += 1) await put(join(cwd, `${at}.txt`));
  const lines = (names: readonly string[]) => names.map((name) => `MEDIA:${name}`).join("\n");
  const many = await stage(lines(Array.from({ length: 11 }, (_, at) => `${at}.txt`)));
  assert.equal(many.files.length, 10);
  assert.match(many.text, /10\.txt \(not sent: an answer sends at most 10 files\)/);
  for (const name of ["a", "b", "c"]) await put(join(cwd, name), Buffer.alloc(8 * 1024 * 1024));
  const large = await stage(lines(["a", "b", "c"]));
  assert.equal(large.files.length, 2);
  assert.match(large.text, /MEDIA:c \(not sent: the files of an answer have at most 20 MB\)/);
});

/** A platform that takes files, which does with each part what the test says. */
function fileTarget(act: (part: string, delivery: Delivery) => SendOutcome | Promise<SendOutcome>) {
  return new TestTarget((delivery, options) => {
    const text = String(readMessage("telegram", delivery)?.text ?? "");
    return sendWithFiles(
      [text],
      { delivery, options },
      {
        sendText: async () => act(`text ${text.trim()}`, delivery),
        sendFile: async ({ name, bytes }) => act(`file ${name} ${Buffer.from(bytes).toString()}`, delivery),
      },
    );
  }, "telegram");
}

const DELIVERED = { status: "delivered" } as const;

test("every attempt sends the bytes that the file had at the first, and nothing twice", async (t) => {
  const { cwd, home, files, put } = await openHome(t);
  const path = await put(join(cwd, "a.txt"), "first");
  const { store, clock, dispatch } = await openDispatch(t);
  const id = await enqueue(store, {
    target: "telegram:42",
    payload: answerPayload(`Done.\nMEDIA:${path}`, { cwd }),
  });
  const sent: string[] = [];
  const target = fileTarget(async (part, { attempt }) => {
    sent.push(part);
    if (part.startsWith("text")) return DELIVERED;
    await writeFile(path, `changed ${attempt}`);
    return attempt === 1 ? { status: "retry", error: "busy" } : DELIVERED;
  });
  const dispatcher = dispatch([target], { files });
  await dispatcher.start();
  await reachedError(store, id, "busy");
  assert.deepEqual(await readdir(join(home, "outbox", id)), ["0"]);
  assert.equal((await stat(join(home, "outbox", id, "0"))).mode & 0o077, 0, "only for its user");
  await deliveredAfter(clock, store, id);
  assert.deepEqual(sent, ["text Done.", "file a.txt first", "file a.txt first"]);
  await dispatcher.close({ graceMs: 1_000 });
  assert.deepEqual(await readdir(join(home, "outbox")), []);
});

/**
 * Lets time pass until the message is delivered: the dispatcher may set its timer after the row has changed. Time stands
 * still during an attempt, which would otherwise reach its limit.
 */
async function deliveredAfter(
  clock: { tick(ms: number): void },
  store: Parameters<typeof row>[0],
  id: string,
): Promise<void> {
  for (;;) {
    const { status, lease_owner: holder } = await row(store, id);
    if (status === "delivered") return;
    if (holder === null) clock.tick(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function reachedError(store: Parameters<typeof row>[0], id: string, error: string): Promise<void> {
  for (;;) {
    if ((await row(store, id)).last_error?.includes(error)) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("a process that takes a message over sends the text and the bytes that the first one recorded", async (t) => {
  const { cwd, files, put } = await openHome(t);
  const path = await put(join(cwd, "a.txt"), "first");
  const { store, clock, dispatch } = await openDispatch(t);
  const id = await enqueue(store, {
    target: "telegram:42",
    payload: answerPayload(`Done.\nMEDIA:a.txt`, { cwd }),
  });
  const first = dispatch([fileTarget(() => ({ status: "retry", error: "down" }))], { files });
  await first.start();
  await reachedError(store, id, "down");
  await first.close({ graceMs: 1_000 });
  await rm(path);
  const sent: string[] = [];
  const other = fileTarget((part) => {
    sent.push(part);
    return DELIVERED;
  });
  clock.tick(1_000);
  await dispatch([other], { files }).start();
  await reached(store, id, "delivered");
  assert.deepEqual(sent, ["text Done.", "file a.txt first"]);
});

test("bytes that were changed where they are kept are not sent", async (t) => {
  const { cwd, home, files, put } = await openHome(t);
  await put(join(cwd, "a.txt"), "first");
  const { store, dispatch } = await openDispatch(t);
  const id = await enqueue(store, { target: "telegram:42", payload: answerPayload("MEDIA:a.txt", { cwd }) });
  const target = fileTarget(async (part) => {
    if (part.startsWith("text")) await writeFile(join(home, "outbox", id, "0"), "other");
    return DELIVERED;
  });
  await dispatch([target], { files }).start();
  const { last_error: error } = await reached(store, id, "dead");
  assert.match(error ?? "", /bytes of the file "a\.txt" are gone/);
});

test("a platform without files gets the line with the reason, and other messages are never read for files", async (t) => {
  const { cwd, files, put } = await openHome(t);
  await put(join(cwd, "a.txt"));
  const { store, dispatch } = await openDispatch(t);
  const target = new TestTarget();
  const text = "MEDIA:a.txt";
  const answer = await enqueue(store, { payload: answerPayload(text, { cwd }) });
  const event = await enqueue(store, { target: "test:b", payload: messagePayload([{ literal: text }]) });
  const plain = await enqueue(store, { target: "test:c", payload: messagePayload(text) });
  await dispatch([target], { files }).start();
  for (const id of [answer, event, plain]) await reached(store, id, "delivered");
  const texts = new Map(target.sent.map(({ id, payload }) => [id, Object(payload).text]));
  assert.equal(texts.get(answer), "MEDIA:a.txt (not sent: test gets no files from this service)");
  assert.deepEqual([texts.get(event), texts.get(plain)], [text, text]);
  assert.ok(target.sent.every((delivery) => delivery.files === undefined));
});

test("files of messages that are delivered, dropped or deleted are removed at the next start; others stay", async (t) => {
  const { home, files, put } = await openHome(t);
  const { store, dispatch } = await openDispatch(t);
  const later = { availableAtMs: 9_999_999_999_999 };
  const [waiting, dropped, deleted] = [await enqueue(store, later), await enqueue(store, later), "out_gone"];
  await store.write((tx) => tx.update("outbox", { id: dropped }, { status: "dropped" }));
  for (const id of [waiting, dropped, deleted]) await put(join(home, "outbox", id, "0"));
  await dispatch([new TestTarget()], { files }).start();
  const left = async () => readdir(join(home, "outbox"));
  while ((await left()).length > 1) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(await left(), [waiting]);
});

test("when the bytes cannot be kept, nothing is sent, and the message is tried again", async (t) => {
  const { cwd, home, put } = await openHome(t);
  await put(join(cwd, "a.txt"));
  await writeFile(join(home, "outbox"), "not a folder");
  const { store, dispatch } = await openDispatch(t);
  const id = await enqueue(store, {
    target: "telegram:42",
    payload: answerPayload("Done.\nMEDIA:a.txt", { cwd }),
  });
  const target = fileTarget(() => DELIVERED);
  const files = new OutboundFiles({ agentHome: home, workspace: cwd });
  await dispatch([target], { files }).start();
  await reachedError(store, id, "cannot be kept");
  assert.equal(target.sent.length, 0);
});

test("a message to a platform that is not set up yet keeps its files until it is", async (t) => {
  const { cwd, files, put } = await openHome(t);
  const path = await put(join(cwd, "a.txt"), "first");
  const { store, clock, dispatch } = await openDispatch(t);
  const id = await enqueue(store, { target: "telegram:42", payload: answerPayload("MEDIA:a.txt", { cwd }) });
  const unready = new TestTarget(() => ({ status: "retry", error: "not configured" }), "telegram");
  const first = dispatch([unready], { files });
  await first.start();
  await reachedError(store, id, "not configured");
  await first.close({ graceMs: 1_000 });
  await rm(path);
  const sent: string[] = [];
  clock.tick(1_000);
  await dispatch([fileTarget((part) => (sent.push(part), DELIVERED))], { files }).start();
  await reached(store, id, "delivered");
  assert.deepEqual(sent, ["text ", "file a.txt first"]);
});

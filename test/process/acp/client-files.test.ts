import assert from "node:assert/strict";
import { access, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { RequestError, type ClientCapabilities } from "@agentclientprotocol/sdk/unstable";
import { choose, type AcpClient, type AcpClientOptions, type AcpPlace } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying, type ModelReply } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const both: ClientCapabilities = { fs: { readTextFile: true, writeTextFile: true } };

/** Files as an editor has them open, and what was asked of it. */
class Buffers {
  readonly texts = new Map<string, string>();
  readonly asked: string[] = [];

  /** What the editor does not know is an error, as with real ones. */
  get served(): AcpClientOptions {
    return {
      capabilities: both,
      permission: choose("allow_once"),
      serve: (app) =>
        app
          .onRequest("fs/read_text_file", ({ params: { path } }) => {
            this.asked.push(`read ${path}`);
            const content = this.texts.get(path);
            if (content === undefined) throw RequestError.internalError({ path }, "not open");
            return { content };
          })
          .onRequest("fs/write_text_file", ({ params: { path, content } }) => {
            this.asked.push(`write ${path}`);
            this.texts.set(path, content);
            return {};
          }),
    };
  }
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

/** A model that makes these calls, one a step, and then says that it is done. */
function calls(...made: readonly (readonly [name: string, input: unknown])[]): readonly ModelReply[] {
  const steps = made.map(([name, input], index) =>
    calling({ id: `call_${index}`, name, json: JSON.stringify(input) }),
  );
  return [...steps, saying("done")];
}

/** What the model was told of its call number `index`. */
function result(place: AcpPlace, index: number): string {
  const messages = place.models?.requests.at(-1)?.body.messages ?? [];
  const found = messages.find(({ tool_call_id: id }) => id === `call_${index}`);
  assert.ok(found, `no result of call ${index}`);
  return String(found["content"]);
}

function diffs(editor: AcpClient) {
  return editor
    .updates("tool_call_update")
    .flatMap(({ status, content }) => (status === "completed" ? (content ?? []) : []))
    .flatMap((each) => (each.type === "diff" ? [each] : []));
}

test("a client with file capabilities serves reads of unsaved text and gets all writes", async () => {
  const patch = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-unsaved two\n+patched by diff\n";
  await using place = await sharedPlace({
    replies: calls(
      ["read_file", { path: "notes.txt" }],
      ["patch", { path: "notes.txt", old: "one", new: "two" }],
      ["patch", { diff: patch }],
      ["write_file", { path: "deep/new.txt", content: "made\n" }],
      ["write_file", { path: "notes.txt", content: "replaced\n" }],
      ["read_file", { path: "only-on-disk.txt" }],
    ),
  });
  const at = (name: string) => join(place.folder, name);
  await writeFile(at("notes.txt"), "saved\n");
  await writeFile(at("only-on-disk.txt"), "not open anywhere\n");
  const buffers = new Buffers();
  buffers.texts.set(at("notes.txt"), "unsaved one\n");
  const editor = await place.start().client(buffers.served);
  await editor.prompt(await editor.session(place.folder), "go");

  assert.match(result(place, 0), /^1\tunsaved one\n/);
  assert.match(result(place, 1), /^Changed notes\.txt/);
  assert.match(result(place, 3), /^Created deep\/new\.txt/);
  assert.match(result(place, 4), /^Replaced notes\.txt/);
  assert.match(result(place, 5), /^1\tnot open anywhere\n/);
  assert.deepEqual(
    diffs(editor).map(({ path, oldText, newText }) => [path, oldText, newText]),
    [
      [at("notes.txt"), "unsaved one\n", "unsaved two\n"],
      [at("notes.txt"), "unsaved two\n", "patched by diff\n"],
      [at("deep/new.txt"), null, "made\n"],
      [at("notes.txt"), "patched by diff\n", "replaced\n"],
    ],
  );
  // The editor has it, and what it does with its buffers is its own affair.
  assert.equal(buffers.texts.get(at("notes.txt")), "replaced\n");
  assert.equal(await readFile(at("notes.txt"), "utf8"), "saved\n");
  assert.equal(await exists(at("deep/new.txt")), false);
});

test("a write that the client refuses fails the tool call and leaves the disk unchanged", async () => {
  await using place = await sharedPlace({
    replies: calls(
      ["write_file", { path: "new.txt", content: "x" }],
      ["patch", { path: "old.txt", old: "a", new: "b" }],
    ),
  });
  await writeFile(join(place.folder, "old.txt"), "a\n");
  const editor = await place.start().client({
    capabilities: { fs: { readTextFile: false, writeTextFile: true } },
    permission: choose("allow_once"),
    serve: (app) =>
      app.onRequest("fs/write_text_file", () => {
        throw RequestError.internalError({}, "the buffer is locked");
      }),
  });
  await editor.prompt(await editor.session(place.folder), "go");
  for (const index of [0, 1]) assert.match(result(place, index), /The editor did not write .*locked/);
  assert.equal(await exists(join(place.folder, "new.txt")), false);
  assert.equal(await readFile(join(place.folder, "old.txt"), "utf8"), "a\n");
  assert.equal(diffs(editor).length, 0);
});

test("the model learns why the client did not write a file, also where the reason is in the error's details", async () => {
  await using place = await sharedPlace({
    replies: calls(["write_file", { path: "new.txt", content: "x" }]),
  });
  const editor = await place.start().client({
    capabilities: { fs: { readTextFile: false, writeTextFile: true } },
    permission: choose("allow_once"),
    serve: (app) =>
      app.onRequest("fs/write_text_file", () => {
        throw new Error("Permission denied for fs/write_text_file");
      }),
  });
  await editor.prompt(await editor.session(place.folder), "go");
  assert.match(
    result(place, 0),
    /The editor did not write .*new\.txt: Permission denied for fs\/write_text_file/,
  );
});

for (const { name, capabilities, config } of [
  { name: "caps off (`--no-fs --no-terminal`)", capabilities: {}, config: "" },
  {
    name: "caps on, switched off by the configuration",
    capabilities: both,
    config: "acp: { client_files: false }\n",
  },
]) {
  test(`files are read and written on disk with ${name}`, async () => {
    await using place = await sharedPlace({
      config,
      replies: calls(
        ["read_file", { path: "notes.txt" }],
        ["write_file", { path: "new.txt", content: "made\n" }],
      ),
    });
    await writeFile(join(place.folder, "notes.txt"), "saved\n");
    const buffers = new Buffers();
    buffers.texts.set(join(place.folder, "notes.txt"), "unsaved\n");
    const editor = await place.start().client({ ...buffers.served, capabilities });
    await editor.prompt(await editor.session(place.folder), "go");
    assert.match(result(place, 0), /^1\tsaved\n/);
    assert.equal(await readFile(join(place.folder, "new.txt"), "utf8"), "made\n");
    assert.deepEqual(buffers.asked, []);
  });
}

test("files outside the session's folders are read and written on disk, also through links", async () => {
  const elsewhere = await realpath(await mkdtemp(join(tmpdir(), "agentd-elsewhere-")));
  await using _ = { [Symbol.asyncDispose]: () => rm(elsewhere, { recursive: true, force: true }) };
  const other = join(elsewhere, "other.txt");
  await using place = await sharedPlace({
    replies: calls(
      ["read_file", { path: other }],
      ["write_file", { path: other, content: "written\n" }],
      ["read_file", { path: "link.txt" }],
    ),
  });
  await writeFile(other, "on disk\n");
  await symlink(other, join(place.folder, "link.txt"));
  const buffers = new Buffers();
  const editor = await place.start().client(buffers.served);
  await editor.prompt(await editor.session(place.folder), "go");
  assert.match(result(place, 0), /^1\ton disk\n/);
  assert.match(result(place, 2), /^1\twritten\n/);
  assert.equal(await readFile(other, "utf8"), "written\n");
  assert.deepEqual(buffers.asked, []);
});

test("reads use the disk when the client answers with invalid data or not at all", async () => {
  await using place = await sharedPlace({
    replies: calls(["read_file", { path: "odd.txt" }], ["read_file", { path: "never.txt" }]),
  });
  for (const name of ["odd", "never"]) await writeFile(join(place.folder, `${name}.txt`), `saved ${name}\n`);
  const editor = await place.start().client({
    capabilities: both,
    serve: (app) =>
      app.onRequest("fs/read_text_file", ({ params: { path } }) =>
        path.endsWith("odd.txt") ? ({ content: 5 } as never) : new Promise<never>(() => {}),
      ),
  });
  await editor.prompt(await editor.session(place.folder), "go");
  assert.match(result(place, 0), /^1\tsaved odd\n/);
  assert.match(result(place, 1), /^1\tsaved never\n/);
});

test("a cancel withdraws a write that the client never answers, and nothing is written", async () => {
  await using place = await sharedPlace({
    replies: calls(["write_file", { path: "a.txt", content: "x" }]),
  });
  const program = place.start();
  const editor = await program.client({
    capabilities: both,
    permission: choose("allow_once"),
    serve: (app) => app.onRequest("fs/write_text_file", () => new Promise<never>(() => {})),
  });
  const sessionId = await editor.session(place.folder);
  const answer = editor.prompt(sessionId, "go");
  const write = await program.until(() =>
    program.lines.find(({ method }) => method === "fs/write_text_file"),
  );
  await editor.agent.notify("session/cancel", { sessionId });
  assert.equal((await answer).stopReason, "cancelled");
  const withdrawn = await program.until(() =>
    program.lines.find(({ method }) => method === "$/cancel_request"),
  );
  assert.deepEqual(withdrawn["params"], { requestId: write["id"] });
  assert.equal(await exists(join(place.folder, "a.txt")), false);
});

test("binary and missing files are not requested from the client", async () => {
  await using place = await sharedPlace({
    replies: calls(["read_file", { path: "picture.bin" }], ["read_file", { path: "missing.txt" }]),
  });
  await writeFile(join(place.folder, "picture.bin"), Buffer.from([1, 0, 2]));
  const buffers = new Buffers();
  const editor = await place.start().client(buffers.served);
  await editor.prompt(await editor.session(place.folder), "go");
  assert.match(result(place, 0), /is a binary file/);
  assert.match(result(place, 1), /no such file exists/);
  assert.deepEqual(buffers.asked, []);
});

test("files in additionalDirectories are read through the client, and an invalid directory answers -32602", async () => {
  await using place = await sharedPlace({
    config: "approvals: { mode: ask }\n",
    replies: ({ body }, index) => {
      const root = /These folders belong to the work too: ([^,\s]+),/.exec(
        String(body.messages[0]?.["content"]),
      )?.[1];
      return index === 0
        ? calling({ id: "call_0", name: "read_file", json: JSON.stringify({ path: `${root}/lib.txt` }) })
        : saying("done");
    },
  });
  // By a link, as the client names it.
  const root = join(place.base, "library");
  await mkdir(join(place.base, "real"));
  await symlink(join(place.base, "real"), root);
  await writeFile(join(root, "lib.txt"), "saved\n");
  const buffers = new Buffers();
  buffers.texts.set(join(root, "lib.txt"), "unsaved\n");
  const editor = await place.start().client(buffers.served);
  assert.deepEqual(editor.hello.agentCapabilities?.sessionCapabilities?.additionalDirectories, {});
  const open = (additionalDirectories: string[]) =>
    editor.agent.request("session/new", { cwd: place.folder, mcpServers: [], additionalDirectories });
  for (const bad of ["library", join(place.base, "missing"), join(root, "lib.txt")]) {
    await assert.rejects(open([bad]), { code: -32_602 });
  }
  const { sessionId } = await open([root]);
  await editor.prompt(sessionId, "go");
  assert.match(result(place, 0), /^1\tunsaved\n/);
});

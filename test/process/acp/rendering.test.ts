import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Diff, SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk/unstable";
import { choose, type AcpClient, type AcpProcess } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying, type ModelReply } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const call = (name: string, input: unknown) => calling({ id: "call_1", name, json: JSON.stringify(input) });
const terminal = (command: string) => call("terminal", { command });
const done = saying("done");

for (const terminalOutput of [false, true]) {
  const how = terminalOutput ? "as a terminal" : "as text";
  test(`35,000 lines of output need at most four times their size on the wire and lose their start (${how})`, async () => {
    const command = "seq -f 'line number %.0f of many' 1 35000";
    const outputBytes = execFileSync("bash", ["-c", command]).length;
    await using place = await sharedPlace({ replies: [terminal(command), done] });
    const agentd = place.start();
    const editor = await agentd.client({
      permission: choose("allow_once"),
      capabilities: { _meta: { terminal_output: terminalOutput } },
    });
    const sessionId = await editor.session(place.folder);
    const from = agentd.lines.length;
    await editor.prompt(sessionId, "count");
    const wireBytes = bytesOf(agentd.lines.slice(from));
    assert.ok(wireBytes <= 4 * outputBytes, `${wireBytes} bytes for ${outputBytes}`);
    const end = ends(editor).at(-1);
    assert.equal((end?.rawOutput as { truncated: boolean } | undefined)?.truncated, true);
    if (terminalOutput) {
      assert.match(shownInTerminal(editor, end?.toolCallId ?? ""), /line number 35000 of many/);
    } else {
      const text = textOf(end?.content?.at(-1));
      assert.ok(Buffer.byteLength(text) <= 66_000);
      assert.match(text, /^```\n\[\d+ bytes omitted\]\n/);
      assert.match(text, /line number 35000 of many\n```$/);
    }
  });
}

test("live output of a command comes while it runs, in pieces of at most 8 KiB", async () => {
  await using place = await sharedPlace({
    replies: [
      terminal(
        "for i in $(seq 1 20); do seq -f '%.0f some output that is not so short' 1 500; sleep 0.05; done",
      ),
      done,
    ],
  });
  const agentd = place.start();
  const editor = await agentd.client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "count");
  const live = editor
    .updates("tool_call_update")
    .filter((each) => each.status === "in_progress" && each.content);
  assert.ok(live.length >= 2, "output is shown while it comes");
  for (const { content } of live) {
    for (const each of content ?? []) assert.ok(Buffer.byteLength(textOf(each)) <= 8_192 + 100);
  }
});

test("file tools show diffs with absolute paths, and the approved diff equals the applied change", async () => {
  const big = "x".repeat(99) + "\n";
  const twoMiB = big.repeat(21_000);
  const halfMiB = Array.from({ length: 5_000 }, (_, at) => `${at} ${"y".repeat(90)}\n`).join("");
  const steps: { name: string; input: unknown; check: (shown: readonly ToolCallContent[]) => void }[] = [];
  const at = (name: string) => join(place.folder, name);
  const replies: ModelReply[] = [];
  await using place = await sharedPlace({
    replies: () => replies.shift() ?? done,
    // One call writes two megabytes.
    config: "approvals:\n  mode: always_ask\nlimits:\n  max_answer_bytes: 8388608\n",
  });
  await mkdir(at("sub"));
  await writeFile(at("old.txt"), "one\ntwo\nthree\n");
  await writeFile(at("sub/gone.txt"), "bye\n");
  await writeFile(at("image.bin"), new Uint8Array([1, 0, 2, 0, 3]));
  await writeFile(at("large.txt"), twoMiB);
  await writeFile(at("half.txt"), halfMiB);
  const only = (shown: readonly ToolCallContent[]) => {
    assert.equal(diffs(shown).length, 1);
    return diffs(shown)[0] as Diff;
  };

  steps.push(
    {
      name: "write_file",
      input: { path: "sub/new.txt", content: "hello\n" },
      check: (shown) => {
        const { path, oldText, newText } = only(shown);
        assert.deepEqual(
          { path, oldText, newText },
          { path: at("sub/new.txt"), oldText: null, newText: "hello\n" },
        );
      },
    },
    {
      name: "write_file",
      input: { path: "old.txt", content: "one\n2\nthree\n" },
      check: (shown) => {
        const { path, oldText, newText } = only(shown);
        const whole = { path: at("old.txt"), oldText: "one\ntwo\nthree\n", newText: "one\n2\nthree\n" };
        assert.deepEqual({ path, oldText, newText }, whole);
      },
    },
    {
      name: "patch",
      input: { path: "old.txt", old: "three", new: "3" },
      check: (shown) => assert.equal(only(shown).newText, "one\n2\n3\n"),
    },
    {
      name: "patch",
      input: {
        diff: [
          "--- a/old.txt\n+++ b/old.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n 2\n 3\n",
          "--- a/sub/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n",
          "--- /dev/null\n+++ b/born.txt\n@@ -0,0 +1 @@\n+hi\n",
        ].join(""),
      },
      check: (shown) => {
        assert.deepEqual(
          diffs(shown).map(({ path, oldText, newText, _meta }) => [
            path,
            oldText,
            newText,
            _meta?.["deleted"] ?? false,
          ]),
          [
            [at("old.txt"), "one\n2\n3\n", "1\n2\n3\n", false],
            [at("sub/gone.txt"), "bye\n", "", true],
            [at("born.txt"), null, "hi\n", false],
          ],
        );
      },
    },
    {
      name: "write_file",
      input: { path: "image.bin", content: "text now\n" },
      check: (shown) => {
        assert.equal(diffs(shown).length, 0);
        assert.match(JSON.stringify(shown), /binary/);
        assert.ok(JSON.stringify(shown).includes(at("image.bin")));
      },
    },
    {
      name: "patch",
      input: { path: "half.txt", old: `2500 ${"y".repeat(90)}`, new: "changed" },
      check: (shown) => {
        const { path, oldText, newText, _meta } = only(shown);
        assert.equal(path, at("half.txt"));
        assert.equal(_meta?.["partial"], true);
        assert.equal(newText.split("\n").length - 1, 7);
        assert.equal(oldText?.replace(`2500 ${"y".repeat(90)}`, "changed"), newText);
      },
    },
    {
      name: "write_file",
      input: { path: "large.txt", content: `${twoMiB}more\n` },
      check: (shown) => {
        assert.equal(diffs(shown).length, 0);
        assert.match(JSON.stringify(shown), /too large to show/);
        assert.ok(JSON.stringify(shown).length < 70_000);
      },
    },
  );

  const agentd = place.start();
  const editor = await agentd.client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  for (const { name, input, check } of steps) {
    replies.push(call(name, input));
    const from = editor.seen.length;
    await editor.prompt(sessionId, "change it");
    const seen = editor.seen.slice(from);
    const asked = seen.flatMap((each) => (each.kind === "permission" ? [each.request.toolCall] : []));
    const updates = seen.flatMap((each) => (each.kind === "update" ? [each.update] : []));
    const start = updates.find((each) => each.sessionUpdate === "tool_call");
    const end = updates.findLast(
      (each) => each.sessionUpdate === "tool_call_update" && each.status !== "in_progress",
    );
    assert.ok(start?.sessionUpdate === "tool_call" && end?.sessionUpdate === "tool_call_update");
    assert.equal(end.status, "completed", JSON.stringify(end.content));
    for (const shown of [start.content ?? [], asked[0]?.content ?? [], end.content ?? []]) check(shown);
    assert.deepEqual(
      diffs(asked[0]?.content ?? []),
      diffs(end.content ?? []),
      "the approval's diff is what was done",
    );
    assert.equal(start.kind, "edit");
    for (const { path } of start.locations ?? []) assert.ok(path.startsWith(place.folder));
    assert.ok(JSON.stringify(start.rawInput).length <= 262_144 + 1_000);
  }
  assert.equal(await readFile(at("old.txt"), "utf8"), "1\n2\n3\n");
  assert.ok(!existsSync(at("sub/gone.txt")));
});

test("terminal display metadata goes only to clients that support it", async () => {
  await using place = await sharedPlace({
    replies: () => replies.shift() ?? done,
  });
  const replies: ModelReply[] = [];
  const command = "echo out; echo err >&2; exit 3";
  for (const capability of ["terminal_output", "terminal_output_delta", undefined] as const) {
    replies.push(terminal(command));
    const editor = await place.start().client({
      permission: choose("allow_once"),
      capabilities: capability === undefined ? {} : { _meta: { [capability]: true } },
    });
    const sessionId = await editor.session(place.folder);
    await editor.prompt(sessionId, "run it");
    const [start] = editor.updates("tool_call");
    const end = ends(editor).at(-1);
    const id = start?.toolCallId ?? "";
    assert.deepEqual(pick(end?.rawOutput, ["exitCode", "truncated"]), { exitCode: 3, truncated: false });
    if (capability === undefined) {
      assert.ok(!JSON.stringify(editor.seen).includes("terminal_"));
      assert.match(textOf(end?.content?.at(-1)), /^```\nExit code 3[^]*out\nerr\n```$/);
      continue;
    }
    assert.deepEqual(start?.content, [{ type: "terminal", terminalId: id }]);
    assert.deepEqual(start?._meta, { terminal_info: { terminal_id: id, cwd: place.folder } });
    assert.equal(shownInTerminal(editor, id, capability), "out\nerr\n");
    assert.deepEqual(end?._meta, { terminal_exit: { terminal_id: id, exit_code: 3, signal: null } });
    assert.deepEqual(end?.content, [{ type: "terminal", terminalId: id }]);
  }
});

test("command output is fenced so that its backticks and # lines stay plain text", async () => {
  const output = "# not a heading\n```js\nfence in it\n````\n## nor this\n";
  await using place = await sharedPlace({ replies: [terminal(`cat odd.md`), done] });
  await writeFile(join(place.folder, "odd.md"), output);
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "show it");
  const text = textOf(ends(editor).at(-1)?.content?.at(-1));
  const fence = /^(`{3,}|~{3,})\n/.exec(text)?.[1] ?? "";
  assert.ok(text.endsWith(`\n${fence}`));
  assert.ok(text.includes(output));
  assert.ok(!text.slice(fence.length, -fence.length).includes(fence), "nothing inside closes the fence");
});

test("the title of a tool call is one short line, and its content and bounded rawInput hold the whole command", async () => {
  const command = `echo ${"long ".repeat(200)}\necho second line`;
  const huge = `: ${"#".repeat(90_000)}`;
  await using place = await sharedPlace({ replies: [terminal(command), done, terminal(huge), done] });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "run it");
  const [start] = editor.updates("tool_call");
  assert.ok(Array.from(start?.title ?? "").length <= 160 && !start?.title.includes("\n"));
  assert.ok(textOf(start?.content?.[0]).includes(command));
  assert.deepEqual(start?.rawInput, { command });
  await editor.prompt(sessionId, "run it");
  for (const update of editor.updates("tool_call")) assert.ok(JSON.stringify(update).length < 400_000);
});

type Update<K extends SessionUpdate["sessionUpdate"]> = Extract<SessionUpdate, { sessionUpdate: K }>;

/** Updates that close a call. */
function ends(editor: AcpClient): readonly Update<"tool_call_update">[] {
  return editor
    .updates("tool_call_update")
    .filter(({ status }) => status === "completed" || status === "failed");
}

function diffs(content: readonly ToolCallContent[]): readonly Diff[] {
  return content.flatMap((each) => (each.type === "diff" ? [each] : []));
}

function textOf(content: ToolCallContent | undefined): string {
  return content?.type === "content" && content.content.type === "text" ? content.content.text : "";
}

/** What a client shows that adds each piece to the ones before. */
function shownInTerminal(editor: AcpClient, id: string, key = "terminal_output"): string {
  return editor
    .updates("tool_call_update")
    .map(({ toolCallId, _meta }) => {
      const piece = _meta?.[key] as { readonly terminal_id: string; readonly data: string } | undefined;
      return toolCallId === id && piece?.terminal_id === id ? piece.data : "";
    })
    .join("");
}

function bytesOf(lines: AcpProcess["lines"]): number {
  return lines.reduce((sum, line) => sum + Buffer.byteLength(JSON.stringify(line)) + 1, 0);
}

function pick(from: unknown, keys: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(keys.map((key) => [key, (from as Readonly<Record<string, unknown>>)[key]]));
}

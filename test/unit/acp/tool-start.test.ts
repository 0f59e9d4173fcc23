import assert from "node:assert/strict";
import { test } from "node:test";
import { mergeDeltas, planOf, toUpdates } from "../../../src/acp/prompt/turn-reporter.ts";
import {
  toolEndOf,
  boundedInput,
  kindOf,
  titleOf,
  toolCallOf,
  type ToolStart,
} from "../../../src/acp/tools/view.ts";
import type { JournalEvent } from "../../../src/store/journal/journal.ts";

const start = (more: Partial<ToolStart>): ToolStart => ({
  runId: "run_1",
  callId: "call_1",
  tool: "terminal",
  input: {},
  cwd: "/work",
  ...more,
});

test("a title is one line of at most 160 characters, also without a preview", () => {
  assert.equal(titleOf(start({ preview: "Run: ls" })), "Run: ls");
  assert.equal(titleOf(start({ input: { command: "ls\n-l" } })), "terminal: ls -l");
  assert.equal(titleOf(start({})), "terminal");
  const long = titleOf(start({ preview: "😀".repeat(500) }));
  assert.equal(Array.from(long).length, 160);
  assert.ok(long.endsWith("…"));
});

test("kinds come from the event, otherwise from the table of tools", () => {
  assert.equal(kindOf(start({ kind: "fetch" })), "fetch");
  assert.equal(kindOf(start({ tool: "todo" })), "think");
  assert.equal(kindOf(start({ tool: "mcp_else" })), "other");
});

test("locations are absolute and unique, and a read has its first line", () => {
  const call = toolCallOf(
    start({ tool: "read_file", input: { offset: 12 }, paths: ["/project/a", "/project/a", "b"] }),
  );
  assert.deepEqual(call.locations, [{ path: "/project/a", line: 12 }]);
});

test("long input is cut and keeps its shape", () => {
  const short = { path: "a", content: "b" };
  assert.equal(boundedInput(short), short);
  const cut = boundedInput({ path: "a", content: "x".repeat(300_000) }) as { path: string; content: string };
  assert.equal(cut.path, "a");
  assert.match(cut.content, /^x+\[\.\.\. \d+ characters cut \.\.\.\]$/);
  const many = boundedInput(Array.from({ length: 100_000 }, () => "abcdef")) as { truncated: boolean };
  assert.equal(many.truncated, true);
  assert.equal(boundedInput(undefined), undefined);
});

for (const [end, text] of [
  [{ status: "denied", code: "denied_by_user", result: "No." }, "denied by user"],
  [
    { status: "denied", code: "denied_by_user", reason: "not today", result: "No: not today" },
    "denied by user: not today",
  ],
  [{ status: "denied", code: "approval_expired", result: "Too late." }, "approval timed out"],
  [
    { status: "denied", code: "denied_by_policy", result: "Denied by the user, or in time: never." },
    "Denied by the user, or in time: never.",
  ],
  [
    { status: "denied", code: "not_answerable", result: "Nobody can answer here." },
    "Nobody can answer here.",
  ],
  [{ status: "aborted", code: "cancelled", result: "It was stopped." }, "cancelled"],
  [{ status: "aborted", code: "interrupted", result: "The process ended." }, "The process ended."],
] as const) {
  test(`a call that ended as ${end.code} has failed and shows: ${text}`, () => {
    const view = toolEndOf(start({ input: { command: "ls" } }), end);
    assert.equal(view.status, "failed");
    assert.equal(view.content.length, 2, "what it would have done is still there");
    assert.deepEqual(view.content.at(-1), { type: "content", content: { type: "text", text } });
    assert.equal(view.rawOutput?.["code"], end.code);
  });
}

test("a command that ran and failed is failed, with its output and exit code", () => {
  const terminal = start({ tool: "terminal", input: { command: "npm test" } });
  const ended = { status: "ok", result: "Exit code 1\nno", exit: { code: 1, omitted_bytes: 0 } } as const;
  for (const code of ["command_failed", "timed_out"] as const) {
    const view = toolEndOf(terminal, { ...ended, code });
    assert.equal(view.status, "failed");
    assert.match(JSON.stringify(view.content.at(-1)), /Exit code 1/);
    assert.deepEqual([view.rawOutput?.["exitCode"], view.rawOutput?.["code"]], [1, code]);
  }
  assert.equal(toolEndOf(terminal, ended).status, "completed");
});

const event = (type: string, data: object): JournalEvent => ({
  type,
  runId: "run_1",
  data: data as JournalEvent["data"],
  sessionId: "s",
  seq: 1,
  runSeq: 1,
  atMs: 0,
});

test("queued deltas are merged per message, up to 2 KiB", () => {
  const piece = (id: string, delta: string) => event("message.delta", { message_id: id, delta });
  const joined = mergeDeltas([
    piece("a", "1"),
    piece("a", "2"),
    piece("b", "3"),
    event("run.notice", {}),
    piece("b", "4"),
  ]);
  assert.deepEqual(
    joined.map(({ data }) => data["delta"]),
    ["12", "3", undefined, "4"],
  );
  assert.equal(mergeDeltas([piece("a", "x".repeat(2_000)), piece("a", "y".repeat(100))]).length, 2);
});

test("cancelled todos are not in the plan", () => {
  const plan = planOf([
    { id: "1", content: "a", status: "completed" },
    { id: "2", content: "b", status: "cancelled" },
  ]);
  assert.deepEqual(plan, {
    sessionUpdate: "plan",
    entries: [{ content: "a", status: "completed", priority: "medium" }],
  });
});

test("compactions go only to clients that support them, and notices become text in other clients", () => {
  const none = { notices: false, compaction: false };
  const begun = event("compression.started", { reason: "near_limit" });
  const over = event("compression.completed", { status: "compressed", before_tokens: 9, after_tokens: 3 });
  const kinds = (of: JournalEvent, features: typeof none) =>
    toUpdates(of, features).map((each) => each.sessionUpdate);
  for (const each of [begun, over]) assert.deepEqual(kinds(each, none), []);
  assert.deepEqual(kinds(event("run.notice", { message: "again" }), none), ["agent_message_chunk"]);
  assert.deepEqual(kinds(event("run.notice", { message: "again" }), { ...none, notices: true }), ["notice"]);
  assert.deepEqual(kinds(begun, { ...none, notices: true }), ["notice"]);
  assert.deepEqual(
    [begun, over].map((each) => toUpdates(each, { ...none, compaction: true })[0]),
    [
      { sessionUpdate: "compaction_update", compactionId: "run_1:compaction", status: "in_progress" },
      { sessionUpdate: "compaction_update", compactionId: "run_1:compaction", status: "completed" },
    ],
  );
});

test("an edit has the first line that it changes, at its start and at its end", () => {
  const path = "/project/a.ts";
  const diff =
    "--- a\n+++ b\n@@ -37,7 +37,8 @@\n c37\n c38\n c39\n-c40\n+d40\n+d41\n c41\n c42\n c43\n@@ -80,1 +81,1 @@\n-x\n+y\n";
  const edit = start({
    tool: "patch",
    input: {},
    paths: [path],
    changes: [{ path, diff, size: 10 } as never],
  });
  assert.deepEqual(toolCallOf(edit).locations, [{ path, line: 40 }]);
  const changed = toolEndOf(start({ tool: "patch" }), {
    status: "ok",
    result: "ok",
    changes: edit.changes ?? [],
  });
  assert.deepEqual(changed.locations, [{ path, line: 40 }]);
  const made = { path, diff: "--- /dev/null\n+++ b\n@@ -0,0 +1,1 @@\n+x\n", size: 1 } as never;
  assert.deepEqual(toolCallOf(start({ changes: [made] })).locations, [{ path, line: 1 }]);
});

import type { Breakage } from "./breakage.ts";

/** The JSON-RPC gateway, ACP and the command line. */
export const surfaceBreakages: readonly Breakage[] = [
  {
    name: "rpc-replay",
    guarantee: "A client that reconnects gets every event after its cursor",
    file: "rpc/replay.ts",
    from: "return { after: cursor.last_seen, latestSeq, truncated: false };",
    to: "return { after: Math.min(cursor.last_seen + 1, latestSeq), latestSeq, truncated: false };",
    tests: ["contract/rpc/resume.test.ts"],
  },
  {
    name: "rpc-truncated",
    guarantee: "A client whose missed events are gone is told so",
    file: "rpc/replay.ts",
    from: "if (!isKept) return { after: latestSeq, latestSeq, truncated: true };",
    to: "if (!isKept) return { after: latestSeq, latestSeq, truncated: false };",
    tests: ["contract/rpc/resume.test.ts"],
  },
  {
    name: "rpc-control-events",
    guarantee: "A slow reader loses deltas only, never an answer or another event",
    file: "rpc/outbox.ts",
    from: "this.#add({ text, size: text.length }, held);",
    to: "if (!this.#isHalfFull()) this.#add({ text, size: text.length }, held);",
    tests: ["unit/rpc/outbox.test.ts"],
  },
  {
    name: "rpc-scope",
    guarantee: "A connection cannot call a method that its key has no scope for",
    file: "rpc/dispatch.ts",
    from: "if (meta.scope !== undefined) requireScope(",
    to: "if (meta.scope === null) requireScope(",
    tests: ["unit/rpc/connection.test.ts"],
  },
  {
    name: "acp-cancelled-permission",
    guarantee: "A permission request that the editor cancels is no permission",
    file: "acp/permission.ts",
    from: `if (outcome.outcome === "cancelled") return { type: "cancel" };`,
    to: `if (outcome.outcome === "cancelled") return { type: "reply", reply: { choice: "once" }, by: "acp" };`,
    tests: ["unit/acp/questions.test.ts"],
  },
  {
    name: "acp-unknown-option",
    guarantee: "A permission option that was not offered denies",
    file: "acp/permission-request.ts",
    from: `return chosen?.choice ?? "deny";`,
    to: `return chosen?.choice ?? "once";`,
    tests: ["unit/acp/questions.test.ts"],
  },
  {
    name: "stdout-frames-only",
    guarantee: "Nothing but frames of the protocol reaches standard output",
    file: "base/frame-output.ts",
    from: "stderr.write(...chunk)) as typeof stdout.write;",
    to: "write(...(chunk as Parameters<typeof write>))) as typeof stdout.write;",
    tests: ["process/rpc/stdio.test.ts"],
  },
  {
    name: "config-get-masks",
    guarantee: "agentd config get prints no secret",
    file: "config/secret-values.ts",
    from: `  if (path.some((segment, depth) => SECRET_KEYS.has(String(segment)) || isMarked(path.slice(0, depth + 1))))
    return MASK;`,
    to: "",
    tests: ["unit/config/secrets.test.ts"],
  },
  {
    name: "failed-command-of-an-editor",
    guarantee: "An editor sees a command that failed as failed",
    file: "acp/tool-end.ts",
    from: `end.status === "ok" && end.code === undefined ? "completed" : "failed"`,
    to: `end.status === "ok" ? "completed" : "failed"`,
    tests: ["unit/acp/tool-start.test.ts"],
  },
];

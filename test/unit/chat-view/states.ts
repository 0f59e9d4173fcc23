/** States of a chat, for the screen. */
import type { ChatState, ToolItem, TurnState } from "../../../src/client/conversation/state.ts";

export const NOW_MS = 1_700_000_000_000;

export const IDLE: ChatState = {
  connection: { kind: "ready" },
  session: { id: "20260101_101010_abcdef", title: "Sums", cwd: "/code/sums" },
  serial: 1,
  generation: 1,
  settled: [],
  dropped: 0,
  live: [],
  queue: [],
  questions: [],
  notifications: [],
  status: {
    model: "sum-1",
    provider: "local",
    contextUsed: 12_300,
    contextMax: 128_000,
    contextPercent: 9.6,
    totalTokens: 15_000,
    costUsd: 0.0123,
    isCostEstimated: false,
    isYolo: false,
  },
  composer: {
    completions: [],
    completionsFor: "",
    history: ["first prompt", "second prompt"],
    attachments: [],
  },
  isLeaveArmed: false,
  maxSettled: 500,
};

export const TURN: TurnState = {
  id: "turn_1",
  startedAtMs: NOW_MS - 3_000,
  activity: "thinking",
  isBetweenMessages: false,
  isInterrupting: false,
};

export const TOOL: ToolItem = {
  kind: "tool",
  id: "t1",
  name: "terminal",
  context: "npm test",
  status: "done",
  progress: "",
  durationSeconds: 3.21,
  startedAtMs: NOW_MS - 4_000,
};

export const DIFF = [
  "--- a/src/sum.ts",
  "+++ b/src/sum.ts",
  "@@ -1,3 +1,3 @@",
  " export function sum(a: number, b: number) {",
  "-  return a - b;",
  "+  return a + b;",
  " }",
  "",
].join("\n");

export const ANSWER = [
  "# What I found",
  "",
  "The function **sum** in `src/sum.ts` subtracted. I changed _one_ sign, see [the rule](https://example.org/sums):",
  "",
  "```ts",
  "export const sum = (a: number, b: number) => a + b;",
  "```",
  "",
  "- first, a point that is long enough to be wrapped at eighty columns, as one sees here",
  "  - a point below it",
  "1. numbered",
  "",
  "> quoted words",
  "",
  "Wide: 日本語のテキスト, joined: 👩‍👩‍👧, combined: é.",
].join("\n");

export const TALK: ChatState = {
  ...IDLE,
  settled: [
    { kind: "user", id: "u1", text: "the sums are wrong, please fix them" },
    {
      kind: "reasoning",
      id: "r1",
      text: "The user says that sums are wrong.\nI should look at the code.",
      isStreaming: false,
    },
    TOOL,
    { ...TOOL, id: "t2", name: "patch", context: "src/sum.ts", durationSeconds: 0.1, diff: DIFF },
    {
      ...TOOL,
      id: "t3",
      context: "rm -rf /",
      status: "failed",
      error: "denied by the user",
      durationSeconds: 12,
    },
    { kind: "assistant", id: "a1", text: ANSWER, status: "complete" },
    { kind: "notice", id: "n1", level: "warning", text: "The context is nearly full: /compress makes room." },
  ],
};

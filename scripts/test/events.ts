/** What a worker tells its pool of the tests it runs: a reporter of `node:test`, and the messages it sends. */
import process from "node:process";
import { inspect } from "node:util";
import type { TestEvent as RunnerEvent } from "node:test/reporters";

/** The last subtest of a file: when it has run, all others have. */
export const LAST = "(end of file)";

/** Sent by a worker, in the order in which things happen. */
export type WorkerMessage =
  | { readonly type: "begun"; readonly name: string }
  | { readonly type: "result"; readonly result: TestResult }
  | { readonly type: "file end" }
  | { readonly type: "note"; readonly text: string };

export interface TestResult {
  readonly name: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly durationMs: number;
  /** `file:line` of the test's declaration. */
  readonly place: string;
  /** Of a failure, with the stack. */
  readonly error?: string;
}

/** Reports to the process that started this one. */
export default async function* report(events: AsyncIterable<RunnerEvent>): AsyncGenerator<never> {
  for await (const event of events) {
    for (const message of messagesOf(event)) process.send?.(message);
  }
  yield* [];
}

function messagesOf(event: RunnerEvent): WorkerMessage[] {
  if (event.type === "test:dequeue") return [{ type: "begun", name: event.data.name }];
  if (event.type === "test:diagnostic" && event.data.message.startsWith("Warning")) {
    return [{ type: "note", text: event.data.message }];
  }
  if (event.type !== "test:pass" && event.type !== "test:fail") return [];
  const result = resultOf(event);
  return [
    ...(result ? [{ type: "result", result } as const] : []),
    ...(event.data.nesting === 0 ? [{ type: "file end" } as const] : []),
  ];
}

function resultOf(event: Extract<RunnerEvent, { type: "test:pass" | "test:fail" }>): TestResult | undefined {
  const { name, details, file = "", line = 0, skip, todo } = event.data;
  if (name === LAST) return undefined;
  const isContainer = event.data.nesting === 0 || details.type === "suite";
  const outcome = event.type === "test:fail" ? "failed" : skip || todo ? "skipped" : "passed";
  const error = event.type === "test:fail" ? event.data.details.error : undefined;
  // A file or suite fails with its tests; what they say is enough.
  const isEcho = isContainer && (outcome !== "failed" || isSubtestFailure(error));
  if (isEcho) return undefined;
  return {
    name,
    outcome,
    durationMs: details.duration_ms,
    place: `${file}:${line}`,
    ...(error === undefined ? {} : { error: textOf(error) }),
  };
}

function isSubtestFailure(error: unknown): boolean {
  return (error as { failureType?: string } | undefined)?.failureType === "subtestsFailed";
}

function textOf(error: unknown): string {
  const { cause = error } = error as { cause?: unknown };
  return typeof cause === "string" ? cause : inspect(cause, { depth: 6, breakLength: 110 });
}

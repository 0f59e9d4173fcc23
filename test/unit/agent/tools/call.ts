import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { SchemaSet } from "../../../../src/base/schema.ts";
import type {
  Questions,
  Tool,
  ToolContext,
  ToolIntent,
  ToolOutput,
} from "../../../../src/agent/tool/tool.ts";

export interface CallOptions {
  readonly cwd: string;
  readonly signal?: AbortSignal;
  readonly progress?: (text: string) => void;
  /** What else the call may use; a tool must not use what a test does not provide. */
  readonly context?: Partial<ToolContext>;
}

const schemas = new SchemaSet({});

/** Calls a tool like the agent: schema, inspect, run. Resolves to the text for the model. */
export async function call(tool: Tool, input: unknown, options: CallOptions): Promise<string> {
  return (await callWhole(tool, input, options)).text;
}

/** As {@link call}, with the output for people. */
export async function callWhole(tool: Tool, input: unknown, options: CallOptions): Promise<ToolOutput> {
  const issue = schemas.check(tool.parameters, input)?.[0];
  if (issue) throw new TypeError(`${issue.path} ${issue.message}`);
  tool.inspect(input as never, { cwd: options.cwd });
  const output = await tool.run(input as never, {
    callId: randomUUID(),
    runId: "run_test",
    sessionId: "ses_test",
    owner: "tester",
    model: "demo:demo",
    cwd: options.cwd,
    isPlanning: false,
    signal: options.signal ?? new AbortController().signal,
    progress: options.progress ?? (() => {}),
    questions: noQuestions,
    variables: { has: () => false, share: () => {}, shared: () => ({}) },
    complete: () => unexpected("complete"),
    delegate: () => unexpected("delegate"),
    chooseMode: () => unexpected("chooseMode"),
    todos: { read: () => unexpected("todos.read"), write: () => unexpected("todos.write") },
    ...options.context,
  });
  return typeof output === "string" ? { text: output } : output;
}

const noQuestions: Questions = {
  clarify: () => unexpected("clarify"),
  sudo: () => unexpected("sudo"),
  secret: () => unexpected("secret"),
};

async function unexpected(what: string): Promise<never> {
  throw new Error(`the tool called ${what}, which this test did not give`);
}

/**
 * Watches the memory of this process; the returned function asserts that it grew by less than `limitBytes`. On Deno the
 * test files are threads of one process, so nothing is asserted there.
 */
export function watchMemory(): (limitBytes: number) => void {
  const before = process.memoryUsage().rss;
  return (limitBytes) => {
    if ("Deno" in globalThis) return;
    const grown = process.memoryUsage().rss - before;
    assert.ok(grown < limitBytes, `memory grew by ${grown} bytes`);
  };
}

export function inspect(tool: Tool, input: unknown, cwd: string): ToolIntent {
  return tool.inspect(input as never, { cwd });
}

/** A directory for one test, removed with it. */
export function workspace(test: { after(clean: () => void): void }): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "agentd-tools-")));
  test.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

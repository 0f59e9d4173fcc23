import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { SchemaSet } from "../../../../src/base/validate.ts";
import type { Tool, ToolIntent } from "../../../../src/agent/tool.ts";

export interface CallOptions {
  readonly cwd: string;
  readonly signal?: AbortSignal;
  readonly progress?: (text: string) => void;
}

const schemas = new SchemaSet({});

/** Calls a tool the way the agent does: schema, inspect, run. */
export async function call(tool: Tool, input: unknown, options: CallOptions): Promise<string> {
  const issue = schemas.check(tool.parameters, input)?.[0];
  if (issue) throw new TypeError(`${issue.path} ${issue.message}`);
  tool.inspect(input as never, { cwd: options.cwd });
  return tool.run(input as never, {
    callId: randomUUID(),
    sessionId: "ses_test",
    cwd: options.cwd,
    signal: options.signal ?? new AbortController().signal,
    progress: options.progress ?? (() => {}),
  });
}

/**
 * Watches the memory of this process; the returned function asserts that it grew less than `limitBytes`. On Deno the
 * test files are threads of one process, whose memory says nothing about one of them: there nothing is asserted.
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

/** A directory of its own for one test, removed with it. */
export function workspace(test: { after(clean: () => void): void }): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "agentd-tools-")));
  test.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

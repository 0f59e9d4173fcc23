import { randomUUID } from "node:crypto";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

export function inspect(tool: Tool, input: unknown, cwd: string): ToolIntent {
  return tool.inspect(input as never, { cwd });
}

/** A directory of its own for one test, removed with it. */
export function workspace(test: { after(clean: () => void): void }): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "agentd-tools-")));
  test.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { McpServerOptions } from "../../../../src/agent/mcp/connection.ts";
import { McpServers, type McpServersOptions } from "../../../../src/agent/mcp/servers.ts";
import type { Tool } from "../../../../src/agent/tool/tool.ts";
import { systemClock, type Clock } from "../../../../src/base/time.ts";
import { silentLog, type Log } from "../../../../src/base/observe.ts";

export interface Cleaner {
  after(clean: () => void | Promise<void>): void;
}

type Limits = Partial<Pick<McpServerOptions, "startTimeoutMs" | "timeoutMs" | "tools">>;

const limits = { startTimeoutMs: 60_000, timeoutMs: 60_000 };
const places = Object.fromEntries(
  ["PATH", "HOME"].flatMap((name) =>
    process.env[name] === undefined ? [] : [[name, process.env[name] ?? ""]],
  ),
);

/** A script of this folder, run by the runtime of the tests. */
export function script(name: string, args: readonly string[] = [], more: Limits & { env?: object } = {}) {
  const { env = {}, ...rest } = more;
  const run = "Deno" in globalThis ? ["run", "-A", "--no-check"] : [];
  return {
    ...limits,
    ...rest,
    command: process.execPath,
    args: [...run, fileURLToPath(new URL(name, import.meta.url)), ...args],
    env: { ...places, ...env },
    cwd: realpathSync(tmpdir()),
  };
}

export const sdk = (pidFile?: string, more?: Limits & { env?: object }) =>
  script("sdk-server.ts", pidFile === undefined ? [] : [pidFile], more);
export const raw = (mode: string, more?: Limits) => script("raw-server.ts", [mode], more);
export const http = (url: string, more: Limits & { headers?: Record<string, string> } = {}) => ({
  ...limits,
  headers: {},
  ...more,
  url,
});

/** Connected servers that close with the test. */
export async function connected(
  test: Cleaner,
  options: McpServersOptions,
  { log = silentLog, clock = systemClock }: { readonly log?: Log; readonly clock?: Clock } = {},
): Promise<McpServers> {
  const servers = new McpServers(log, clock);
  test.after(() => servers.close());
  await servers.use(options);
  return servers;
}

export function toolOf(servers: McpServers, name: string): Tool {
  const tool = servers.tools().find((each) => each.name === name);
  if (!tool) throw new Error(`no ${name}; ${JSON.stringify(servers.status())}`);
  return tool;
}

export function folder(test: Cleaner): string {
  const path = mkdtempSync(join(tmpdir(), "agentd-mcp-"));
  test.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export function pidsIn(file: string): number[] {
  return readFileSync(file, "utf8").trim().split("\n").map(Number);
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  if (process.platform !== "linux") return true;
  // Zombies can still be signalled.
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}

/** Resolves when `fact` holds; rejects after ten seconds. */
export async function until(fact: () => boolean, what: string): Promise<void> {
  for (const endMs = Date.now() + 60_000; !fact();) {
    if (Date.now() > endMs) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

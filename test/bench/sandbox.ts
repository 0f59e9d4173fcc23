/** What the sandbox adds to a command, beside the same command without it. */
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { runCommand } from "../../src/exec/process-group.ts";
import { SandboxService } from "../../src/exec/sandbox/service.ts";
import { type BenchRow, median, runAlone } from "./row.ts";

const ROUNDS = 21;
const AT_ONCE = 100;

export async function run(): Promise<readonly BenchRow[]> {
  const cwd = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
  const service = await SandboxService.start({
    setting: "auto",
    hosts: ["registry.example.com"],
    allowedPrivateHosts: [],
    limits: { maxProcesses: 512, maxMemoryBytes: 4_294_967_296 },
    folders: {
      home: "/nonexistent",
      userHome: process.env["HOME"] ?? "/root",
      readableInHome: [],
      writable: [],
      readable: [],
      hidden: [],
      searchPath: process.env["PATH"] ?? "",
    },
  });
  if (!service.isActive) return [{ name: "no sandbox on this machine", value: 0, unit: "" }];
  const bare: number[] = [];
  const confined: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    bare.push(await msOf(() => runTrue(cwd)));
    confined.push(await msOf(() => runTrue(cwd, service)));
  }
  const [value, control] = [median(confined), median(bare)];
  const more = value - control;
  const before = process.memoryUsage.rss();
  const togetherMs = await msOf(() =>
    Promise.all(Array.from({ length: AT_ONCE }, () => runTrue(cwd, service))),
  );
  const grownMb = (process.memoryUsage.rss() - before) / 1e6;
  await service.close();
  await rm(cwd, { recursive: true, force: true });
  return [
    { name: "a sandboxed `true`, with a proxy", value, unit: "ms", control, ratio: value / control },
    { name: "what the sandbox adds", value: more, unit: "ms", goal: "<= 40", met: more <= 40 },
    { name: `${AT_ONCE} sandboxed commands at once`, value: togetherMs, unit: "ms" },
    {
      name: "memory that they add to the service",
      value: grownMb,
      unit: "MB",
      goal: "<= 50",
      met: grownMb <= 50,
    },
  ];
}

async function runTrue(cwd: string, service?: SandboxService): Promise<void> {
  const sandbox = await service?.open({ sessionId: "ses_bench", writable: [cwd] });
  const end = await runCommand("true", {
    cwd,
    env: { PATH: process.env["PATH"] ?? "" },
    timeoutMs: 60_000,
    onOutput: () => {},
    signal: new AbortController().signal,
    confine: sandbox?.confine,
    limits: sandbox?.limits,
  });
  await sandbox?.close();
  if (end.exitCode !== 0) throw new Error(`true ended with ${end.exitCode ?? end.signalName}`);
}

async function msOf(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

await runAlone(import.meta.url, run);

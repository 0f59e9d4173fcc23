/** What a process of somebody else costs: the built program tells no bench of its own, and must not for this. Linux. */
import { readFileSync } from "node:fs";

/** Of the system's clock for processes, which Linux fixes for programs. */
const TICKS_PER_SECOND = 100;

/** CPU time of all threads of a process so far, in microseconds, to ten milliseconds. */
export function cpuMicros(pid: number | undefined): number {
  // The name of the program stands in brackets, and may have spaces.
  const fields = procFile(pid, "stat").split(") ").at(-1)?.split(" ") ?? [];
  return numbered(((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1_000_000);
}

/** Memory of a process that is in RAM. */
export function residentBytes(pid: number | undefined): number {
  return numbered(Number(/^VmRSS:\s+(\d+)/m.exec(procFile(pid, "status"))?.[1]) * 1_024);
}

function procFile(pid: number | undefined, name: string): string {
  return readFileSync(`/proc/${pid}/${name}`, "utf8");
}

function numbered(value: number): number {
  if (Number.isNaN(value)) throw new Error("the system does not tell what the process costs");
  return value;
}

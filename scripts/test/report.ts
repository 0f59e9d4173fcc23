/** What a run prints: a line of progress, failures as they happen, and totals. */
import process from "node:process";
import type { TestResult } from "./events.ts";
import type { FileCost } from "./pool.ts";

/** Where there is no terminal, a line of progress comes this often at most. */
const LINE_EVERY_MS = 5_000;

export interface Report {
  fileStart(file: string): void;
  result(file: string, result: TestResult): void;
  fileEnd(file: string, cost: FileCost): void;
  output(file: string, text: string): void;
  /** Prints the totals. False: something failed. */
  end(): boolean;
}

export function createReport(fileCount: number, slowest: number): Report {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const failures: string[] = [];
  const costs: (FileCost & { readonly name: string })[] = [];
  const atWork = new Set<string>();
  const startMs = performance.now();
  let filesDone = 0;
  let lastLineMs = startMs;

  const print = (text: string) => process.stdout.write(`${process.stdout.isTTY ? "\r\x1b[K" : ""}${text}\n`);
  const progress = () => {
    const seconds = Math.round((performance.now() - startMs) / 1000);
    const line = `${seconds} s  ${filesDone}/${fileCount} files, ${counts.passed} passed, ${counts.failed} failed: ${[...atWork].join(", ")}`;
    if (process.stdout.isTTY) {
      process.stdout.write(`\r\x1b[K${line.slice(0, process.stdout.columns - 1)}`);
    } else if (performance.now() - lastLineMs > LINE_EVERY_MS) {
      lastLineMs = performance.now();
      print(line);
    }
  };
  return {
    fileStart(file) {
      atWork.add(file);
      progress();
    },
    result(file, { name, outcome, place, error }) {
      counts[outcome]++;
      if (outcome === "failed") {
        const text = `FAILED ${file}: ${name}\n  at ${place}\n${indent(error ?? "")}`;
        failures.push(text);
        print(text);
      }
      progress();
    },
    fileEnd(file, cost) {
      atWork.delete(file);
      filesDone++;
      costs.push({ name: file, ...cost });
      progress();
    },
    output: (file, text) => print(`${file} wrote: ${text.trimEnd()}`),
    end() {
      print("");
      if (failures.length > 0) print(`${failures.length} failed:\n\n${failures.join("\n\n")}\n`);
      for (const each of costs.toSorted((a, b) => b.durationMs - a.durationMs).slice(0, slowest)) {
        const cpu = each.cpuMs === undefined ? "" : `${seconds(each.cpuMs)} s of CPU`;
        print(`${seconds(each.durationMs)} s ${cpu}  ${each.name}`);
      }
      print(`${fileCount} files in ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
      print(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
      return counts.failed === 0 && counts.passed > 0;
    },
  };
}

const seconds = (ms: number) => (ms / 1000).toFixed(2).padStart(8);

function indent(text: string): string {
  return text.replaceAll(/^/gm, "  ");
}

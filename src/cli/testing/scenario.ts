/** What a scenario is, and how a list of them runs. */
import { shorten } from "../../base/text.ts";
import { setTimeout as sleep } from "node:timers/promises";

export interface Scenario<Target> {
  /** A sentence that holds for every server that keeps the contract. */
  readonly title: string;
  /** `signal` aborts when the time of the scenario is over. */
  run(target: Target, signal: AbortSignal): Promise<void>;
}

export interface Result {
  readonly surface: string;
  readonly title: string;
  readonly status: "passed" | "failed";
  readonly seconds: number;
  /** What was expected and what came. Absent: it passed. */
  readonly problem?: string;
}

/** The server did not do what the contract says. */
export class Deviation extends Error {
  override readonly name = "Deviation";
}

export function must(holds: boolean, problem: string): asserts holds {
  if (!holds) throw new Deviation(problem);
}

/** Compares by their JSON. */
export function mustEqual(actual: unknown, expected: unknown, what: string): void {
  const [is, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  must(is === wanted, `${what} is ${shownText(is)}, expected ${shownText(wanted)}`);
}

const MAX_PROBLEM = 500;

const shownText = (text: string | undefined): string => (text === undefined ? "absent" : shorten(text, 200));

/** Runs the scenarios one after another, each with a limit. `onResult` is called after each. */
export async function runScenarios<Target>(
  surface: string,
  scenarios: readonly Scenario<Target>[],
  options: {
    readonly target: Target;
    readonly timeoutMs: number;
    readonly onResult: (result: Result) => void;
  },
): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const { title, run } of scenarios) {
    const startMs = performance.now();
    const over = new AbortController();
    const problem = await problemOf(run(options.target, over.signal), options.timeoutMs);
    over.abort();
    const seconds = Math.round(performance.now() - startMs) / 1000;
    const failed =
      problem === undefined ? { status: "passed" as const } : { status: "failed" as const, problem };
    const result = { surface, title, seconds, ...failed };
    results.push(result);
    options.onResult(result);
  }
  return results;
}

async function problemOf(work: Promise<void>, timeoutMs: number): Promise<string | undefined> {
  const ended = new AbortController();
  const timeout = sleep(timeoutMs, `no end within ${timeoutMs / 1000} seconds`, { signal: ended.signal });
  const outcome = work.then(
    () => undefined,
    (error: unknown) => describe(error),
  );
  try {
    const problem = await Promise.race([outcome, timeout]);
    return problem === undefined ? undefined : problem.slice(0, MAX_PROBLEM);
  } finally {
    ended.abort();
    timeout.catch(() => {});
  }
}

function describe(error: unknown): string {
  if (error instanceof Deviation) return error.message;
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleBare, Editor, makeHome } from "./acp-editor.ts";
import { buildProgram } from "./program.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";

const STARTS = 20;
const GOAL_MS = 85;
const GOAL_P95_MS = 300;
const GOAL_RATIO = 2.5;

/** From the spawn of `agentd acp` to the answer of `initialize`, by an agent that is the SDK alone, bundled and started the same way. */
export async function run(): Promise<readonly BenchRow[]> {
  const program = await buildProgram();
  const folder = await mkdtemp(join(tmpdir(), "agentd-bench-"));
  try {
    const bareWords = await bundleBare(folder);
    const home = join(folder, "existing");
    await makeHome(home);
    const args = [program, "acp"];
    // What is compiled is kept by the first start of each.
    await greet({ args, folder, home });
    await greet({ args: bareWords, folder });
    const [existing, fresh, bare]: [number[], number[], number[]] = [[], [], []];
    for (let i = 0; i < STARTS; i++) {
      existing.push(await greet({ args, folder, home }));
      fresh.push(await greet({ args, folder, home: join(folder, `fresh-${i}`) }));
      bare.push(await greet({ args: bareWords, folder }));
    }
    return rows({ existing, fresh, bare });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The process leaves by the end of its pipe: what was loaded behind the answer is kept compiled. */
async function greet(options: ConstructorParameters<typeof Editor>[0]): Promise<number> {
  await using editor = new Editor(options);
  await editor.initialize();
  return performance.now() - editor.startedMs;
}

interface Samples {
  readonly existing: readonly number[];
  readonly fresh: readonly number[];
  readonly bare: readonly number[];
}

function rows({ existing, fresh, bare }: Samples): readonly BenchRow[] {
  const [value, control] = [median(existing), median(bare)];
  const ratio = value / control;
  const late = percentile(fresh, 95);
  return [
    {
      name: "agentd acp to the answer of initialize, by the bare SDK",
      value,
      unit: "ms",
      control,
      ratio,
      goal: `<= ${GOAL_RATIO}x, <= ${GOAL_MS} ms`,
      met: ratio <= GOAL_RATIO && value <= GOAL_MS,
    },
    {
      name: "the same, fresh home, p95",
      value: late,
      unit: "ms",
      control: percentile(bare, 95),
      ratio: late / percentile(bare, 95),
      goal: `<= ${GOAL_P95_MS} ms`,
      met: late <= GOAL_P95_MS,
    },
  ];
}

await runAlone(import.meta.url, run);

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleBare, Editor, makeHome } from "./acp-editor.ts";
import { buildProgram } from "./program.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const FIRSTS = 7;
const SESSIONS = 50;
const PROMPTS = 250;
const LOADS = 7;
const GOAL_FIRST_MS = 400;
const GOAL_NEW_MS = 60;
const GOAL_LOAD_MS = 400;
const GOAL_IDLE_MB = 120;

/** Sessions that begin, and one of 500 messages that is told again; the memory of a process that waits. */
export async function run(): Promise<readonly BenchRow[]> {
  const program = await buildProgram();
  const folder = await mkdtemp(join(tmpdir(), "agentd-bench-"));
  const home = join(folder, "agentd");
  try {
    await makeHome(home);
    const bareWords = await bundleBare(folder);
    const ours = { args: [program, "acp"], folder, home };
    const first = await firsts(ours);
    await using bare = new Editor({ args: bareWords, folder });
    await bare.initialize();
    await using editor = new Editor(ours);
    await editor.initialize();
    const sessionId = await editor.session();
    const idle = await memory(editor, bare);
    return [first, idle, await begin(editor, bare), ...(await load(editor, sessionId))];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The first session waits for the agent, which loads behind the answer of `initialize`. */
async function firsts(options: ConstructorParameters<typeof Editor>[0]): Promise<BenchRow> {
  const samples: number[] = [];
  for (let i = 0; i <= FIRSTS; i++) {
    await using editor = new Editor(options);
    await editor.initialize();
    const startMs = performance.now();
    await editor.session();
    // The first one fills the cache of compiled code.
    if (i > 0) samples.push(performance.now() - startMs);
  }
  const value = median(samples);
  const goal = `<= ${GOAL_FIRST_MS} ms`;
  return {
    name: "session/new right behind initialize, with the load of the agent",
    value,
    unit: "ms",
    goal,
    met: value <= GOAL_FIRST_MS,
  };
}

const SETTLE_MS = 2_000;

async function memory(editor: Editor, bare: Editor): Promise<BenchRow> {
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const [value, control] = [editor.residentMegabytes(), bare.residentMegabytes()];
  return {
    name: "RSS of agentd acp with an idle session, by the bare SDK",
    value,
    unit: "MB",
    control,
    ratio: value / control,
    goal: `<= ${GOAL_IDLE_MB} MB`,
    met: value <= GOAL_IDLE_MB,
  };
}

async function begin(editor: Editor, bare: Editor): Promise<BenchRow> {
  const [ours, theirs]: [number[], number[]] = [[], []];
  for (let i = 0; i < SESSIONS; i++) {
    ours.push(await timed(editor, true));
    theirs.push(await timed(bare, false));
  }
  const [value, control] = [median(ours), median(theirs)];
  return {
    name: "session/new with the agent loaded, by the bare SDK",
    value,
    unit: "ms",
    control,
    ratio: value / control,
    goal: `<= ${GOAL_NEW_MS} ms`,
    met: value <= GOAL_NEW_MS,
  };
}

/** The session is closed again: open ones would be what is measured. */
async function timed(editor: Editor, closes: boolean): Promise<number> {
  const { result, tookMs } = await editor.call("session/new", { cwd: "/", mcpServers: [] });
  // The bare agent has nothing to close.
  if (closes) await editor.call("session/close", { sessionId: result["sessionId"] });
  return tookMs;
}

/** Each prompt of the demo model is two messages. */
async function load(editor: Editor, sessionId: string): Promise<readonly BenchRow[]> {
  const prompts: number[] = [];
  for (let i = 0; i < PROMPTS; i++) prompts.push((await editor.prompt(sessionId, `hello ${i}`)).tookMs);
  let told = 0;
  editor.listen(() => (told += 1));
  const samples: number[] = [];
  for (let i = 0; i < LOADS; i++) {
    await editor.call("session/close", { sessionId });
    told = 0;
    samples.push((await editor.call("session/load", { sessionId, cwd: "/", mcpServers: [] })).tookMs);
    if (told < 2 * PROMPTS) throw new Error(`the load told ${told} things of ${2 * PROMPTS}`);
  }
  const value = median(samples);
  return [
    { name: "a prompt of the demo model", value: median(prompts), unit: "ms" },
    {
      name: `session/load of ${2 * PROMPTS} messages`,
      value,
      unit: "ms",
      goal: `<= ${GOAL_LOAD_MS} ms`,
      met: value <= GOAL_LOAD_MS,
    },
  ];
}

await runAlone(import.meta.url, run);

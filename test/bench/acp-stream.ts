import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleBare, Editor, makeHome } from "./acp-editor.ts";
import { CHUNK, startPacedModel, type PacedModel } from "./acp-model.ts";
import { buildProgram } from "./program.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const PER_SECOND = 1_000;
const SECONDS = 20;
/** What the turn itself loads. */
const WARM_SECONDS = 2;
const RUSH = 20_000;
const RUSHES = 15;
/** By then the runtime has made the room that it makes for what comes and goes. */
const WARM_RUSHES = 5;
const FIRSTS = 25;
const GOAL_GROWTH_MB = 20;
/** A little for each session, and what SQLite may keep of the file in memory. */
const GOAL_RUSHED_MB = 30;
const GOAL_FIRST_MS = 10;
const SAMPLE_MS = 250;

/** A model's stream through `agentd acp`, by an agent that forwards each chunk and does nothing else. */
export async function run(): Promise<readonly BenchRow[]> {
  const program = await buildProgram();
  const folder = await mkdtemp(join(tmpdir(), "agentd-bench-"));
  const home = join(folder, "agentd");
  try {
    await using model = await startPacedModel();
    await makeHome(home, model.url);
    await using bare = await opened(await bundleBare(folder, model.url), folder);
    await using ours = await opened([program, "acp"], folder);
    await using core = new Editor({ args: [program, "rpc"], folder });
    const first = await firstChunk(ours, core);
    const rushed = await rush(ours, bare);
    return [first, ...rushed, ...(await steady(ours, bare, model))];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** An editor with a session that did a first turn. */
interface Opened extends AsyncDisposable {
  readonly editor: Editor;
  readonly sessionId: string;
}

async function opened(args: readonly string[], folder: string): Promise<Opened> {
  const editor = new Editor({ args, folder });
  await editor.initialize();
  const sessionId = await editor.session();
  await editor.prompt(sessionId, "stream 10 0");
  return { editor, sessionId, [Symbol.asyncDispose]: () => editor[Symbol.asyncDispose]() };
}

/** Both journal the turn before they ask the model: what is compared is the way to the editor. */
async function firstChunk({ editor, sessionId }: Opened, core: Editor): Promise<BenchRow> {
  const created = await core.call("session.create", {});
  const ids = { session_id: created.result["session_id"] };
  const [ours, control]: [number[], number[]] = [[], []];
  for (let i = 0; i < FIRSTS; i++) {
    const first = editor.noted("agent_message_chunk");
    await editor.prompt(sessionId, "stream 1 0");
    ours.push(await first);
    const theirs = core.noted("message.delta");
    const ended = core.noted("message.complete");
    await core.call("prompt.submit", { ...ids, text: "stream 1 0" });
    control.push(await theirs);
    await ended;
  }
  const [value, other] = [median(ours), median(control)];
  return {
    name: "prompt to the first chunk, by the TUI gateway",
    value,
    unit: "ms",
    control: other,
    ratio: value / other,
    goal: `<= ${GOAL_FIRST_MS} ms more`,
    met: value - other <= GOAL_FIRST_MS,
  };
}

interface Streamed {
  readonly perSecond: number;
  /** Memory at the end above what it was when the stream was warm. */
  readonly grownMegabytes: number;
  readonly updates: number;
}

async function steady(ours: Opened, bare: Opened, model: PacedModel): Promise<readonly BenchRow[]> {
  const text = `stream ${PER_SECOND * SECONDS} ${PER_SECOND}`;
  const count = PER_SECOND * SECONDS;
  const control = await streamed(bare, { text, count });
  const value = await streamed(await renewed(ours), { text, count });
  const lateMs = performance.now() - model.lastChunkMs;
  return [
    {
      name: `chunks of a model that sends ${PER_SECOND} a second, for ${SECONDS} s`,
      value: value.perSecond,
      unit: "chunks/s",
      control: control.perSecond,
      ratio: value.perSecond / control.perSecond,
      goal: ">= 0.99x",
      met: value.perSecond >= 0.99 * control.perSecond,
    },
    {
      name: `RSS growth in the last ${SECONDS - WARM_SECONDS} s of it`,
      value: value.grownMegabytes,
      unit: "MB",
      control: control.grownMegabytes,
      goal: `<= ${GOAL_GROWTH_MB} MB`,
      met: value.grownMegabytes <= GOAL_GROWTH_MB,
    },
    { name: "updates on the wire for them", value: value.updates, unit: "updates", control: control.updates },
    { name: "the model's last chunk to the answer of the prompt", value: lateMs, unit: "ms" },
  ];
}

async function streamed(
  { editor, sessionId }: Pick<Opened, "editor" | "sessionId">,
  { text, count }: { readonly text: string; readonly count: number },
): Promise<Streamed> {
  let characters = 0;
  let updates = 0;
  const stop = editor.listen((line) => {
    const { params } = JSON.parse(line) as {
      params: { update?: { sessionUpdate: string; content?: { text?: string } } };
    };
    if (params.update?.sessionUpdate !== "agent_message_chunk") return;
    characters += params.update.content?.text?.length ?? 0;
    updates += 1;
  });
  const memory: number[] = [];
  const timer = setInterval(() => memory.push(editor.residentMegabytes()), SAMPLE_MS);
  const { tookMs } = await editor.prompt(sessionId, text);
  clearInterval(timer);
  stop();
  if (characters !== count * CHUNK.length) {
    throw new Error(`${characters / CHUNK.length} of ${count} chunks came`);
  }
  const warm = memory[(WARM_SECONDS * 1_000) / SAMPLE_MS] ?? Number.NaN;
  return {
    perSecond: characters / CHUNK.length / (tookMs / 1_000),
    grownMegabytes: editor.residentMegabytes() - warm,
    updates,
  };
}

/** As fast as it can: how much more than the thousand there is room for. */
async function rush(ours: Opened, bare: Opened): Promise<readonly BenchRow[]> {
  const [rates, controls]: [number[], number[]] = [[], []];
  const memory: { readonly ours: number; readonly bare: number }[] = [];
  for (let i = 0; i < RUSHES; i++) {
    controls.push((await streamed(bare, { text: `stream ${RUSH} 0`, count: RUSH })).perSecond);
    rates.push((await streamed(await renewed(ours), { text: `stream ${RUSH} 0`, count: RUSH })).perSecond);
    memory.push({ ours: ours.editor.residentMegabytes(), bare: bare.editor.residentMegabytes() });
  }
  const [value, control] = [median(rates), median(controls)];
  const [warm, end] = [memory[WARM_RUSHES - 1], memory.at(-1)];
  const grown = (whose: "ours" | "bare") => (end?.[whose] ?? Number.NaN) - (warm?.[whose] ?? Number.NaN);
  return [
    {
      name: `${RUSH} chunks as fast as they come, by the bare SDK`,
      value,
      unit: "chunks/s",
      control,
      ratio: value / control,
      goal: `>= ${PER_SECOND}/s`,
      met: value >= PER_SECOND,
    },
    {
      name: `RSS growth from rush ${WARM_RUSHES} to rush ${RUSHES}`,
      value: grown("ours"),
      unit: "MB",
      control: grown("bare"),
      goal: `<= ${GOAL_RUSHED_MB} MB`,
      met: grown("ours") <= GOAL_RUSHED_MB,
    },
    {
      name: `RSS after ${RUSHES} rushes`,
      value: end?.ours ?? Number.NaN,
      unit: "MB",
      control: end?.bare ?? Number.NaN,
    },
  ];
}

/** A session of its own for each: the model is not sent what it said before. */
async function renewed({ editor }: Opened): Promise<Pick<Opened, "editor" | "sessionId">> {
  return { editor, sessionId: await editor.session() };
}

await runAlone(import.meta.url, run);

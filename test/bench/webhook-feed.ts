import { startServer, type Server } from "./child.ts";
import { follow } from "./follower.ts";
import { median, runAlone, type BenchRow } from "./row.ts";
import { hook, quiet, round, type Round } from "./webhook.ts";

/** In each round, the two kinds are processes of their own: one that switched would run code that V8 had optimised for both. */
const ROUNDS = 10;
const FOLLOWED_ROUNDS = 3;
/** Blocks of each kind in a round. Two processes of one kind differ by up to a tenth, so rounds tell more than turns. */
const TURNS = 8;
/** A block ends with its requests, so that all do the same work. */
const ENOUGH_MS = 120_000;
const WARM_UP = 4_000;
/** Short, so that what is compared ran within seconds: the speed of shared machines changes from one to the next. */
const REQUESTS = 1_200;
const GOAL_RATIO = 0.95;
/** An event is longer. */
const MIN_EVENT_BYTES = 200;

/** `silent`: no feed is written. `written`: it is, and nobody follows it. `followed`: one subscriber follows it. */
type Feed = "silent" | "written" | "followed";
/** A block of each of two kinds, made one after the other. */
interface Turn {
  readonly ours: Round;
  readonly control: Round;
}

/** What the change feed costs webhooks and their runs: writing it, and following it beside that on the same two processors. */
export async function run(): Promise<readonly BenchRow[]> {
  const written = await turnsOf("written", "silent", ROUNDS);
  const followed = await turnsOf("followed", "written", FOLLOWED_ROUNDS);
  const rate = rateRow("webhooks accepted and run with the change feed, by without", written);
  return [
    { ...rate, goal: `>= ${GOAL_RATIO}x`, met: (rate.ratio ?? 0) >= GOAL_RATIO },
    cpuRow(written),
    rateRow("  with a subscriber on the same machine, by the feed without one", followed),
    cpuRow(followed),
  ];
}

async function turnsOf(ours: Feed, control: Feed, rounds: number): Promise<readonly Turn[]> {
  const turns: Turn[] = [];
  for (let n = 0; n < rounds; n++) turns.push(...(await roundOf(ours, control)));
  return turns;
}

async function roundOf(ours: Feed, control: Feed): Promise<readonly Turn[]> {
  await using one = await warmServer(ours);
  await using other = await warmServer(control);
  const turns: Turn[] = [];
  for (let n = 0; n < TURNS; n++) {
    // Each comes first as often as second, and as often behind itself: a process that has just worked is faster.
    const isFirst = n % 2 === 0;
    const early = isFirst ? await accept(one, ours) : undefined;
    const theirs = await accept(other, control);
    turns.push({ ours: early ?? (await accept(one, ours)), control: theirs });
  }
  return turns;
}

async function warmServer(kind: Feed): Promise<Server> {
  const server = await startServer("receiver-with-switch", "{}");
  server.writeFeed(kind !== "silent");
  await round({ server, load: hook, most: WARM_UP }, ENOUGH_MS);
  await quiet(server);
  return server;
}

async function accept(server: Server, feed: Feed): Promise<Round> {
  const [follower] = feed === "followed" ? await follow(server.apiUrl, "/v1/events", 1) : [];
  const rates = await round({ server, load: hook, most: REQUESTS }, ENOUGH_MS);
  await quiet(server);
  if (!follower) return rates;
  // Each webhook is at least an event of its delivery and one of its run.
  if (follower.bytes < rates.answers * 2 * MIN_EVENT_BYTES) {
    throw new Error(`the subscriber got ${follower.bytes} bytes for ${rates.answers} webhooks`);
  }
  follower.cut();
  return rates;
}

/** The ratio is the median of those of the turns: what slowed one block of a turn slowed the other, too. */
function rowOf(turns: readonly Turn[], key: "perSecond" | "cpuMicros") {
  return {
    value: median(turns.map(({ ours }) => ours[key])),
    control: median(turns.map(({ control }) => control[key])),
    ratio: median(turns.map(({ ours, control }) => ours[key] / control[key])),
  };
}

function rateRow(name: string, turns: readonly Turn[]): BenchRow {
  return { name, unit: "requests/s", ...rowOf(turns, "perSecond") };
}

function cpuRow(turns: readonly Turn[]): BenchRow {
  return { name: "  server CPU for one", unit: "us", ...rowOf(turns, "cpuMicros") };
}

await runAlone(import.meta.url, run);

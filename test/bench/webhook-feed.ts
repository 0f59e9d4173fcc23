import { startServer, type Server } from "./child.ts";
import { follow } from "./follower.ts";
import { median, runAlone, type BenchRow } from "./row.ts";
import { hook, quiet, round, type Round } from "./webhook.ts";

/** Each round is a process of each kind. One that switched would run code that V8 had optimised for the other kind. */
const ROUNDS = 6;
const BLOCKS = 6;
/** A block ends with its requests, so that all do the same work. */
const ENOUGH_MS = 120_000;
const WARM_UP = 4_000;
const REQUESTS = 1_200;
const GOAL_RATIO = 0.95;
/** An event is longer. */
const MIN_EVENT_BYTES = 200;

/** `silent`: no feed is written. `written`: it is, and nobody follows it. `followed`: one subscriber follows it. */
type Feed = "silent" | "written" | "followed";
/** Each comes before each other as often as behind it. */
const ORDERS: readonly (readonly Feed[])[] = [
  ["silent", "written", "followed"],
  ["followed", "written", "silent"],
];
type Rounds = Readonly<Record<Feed, Round[]>>;

/** What the change feed costs webhooks and their runs: writing it, and following it beside that on the same two processors. */
export async function run(): Promise<readonly BenchRow[]> {
  const rounds: Rounds = { silent: [], written: [], followed: [] };
  for (let n = 0; n < ROUNDS; n++) {
    for (const kind of ORDERS[n % ORDERS.length] ?? []) rounds[kind].push(...(await blocksOf(kind)));
  }
  const goal = { goal: `>= ${GOAL_RATIO}x` };
  const written = rateRow("webhooks accepted and run with the change feed, by without", rounds, [
    "written",
    "silent",
  ]);
  return [
    { ...written, ...goal, met: (written.ratio ?? 0) >= GOAL_RATIO },
    cpuRow(rounds, ["written", "silent"]),
    rateRow("  with a subscriber on the same machine, by the feed without one", rounds, [
      "followed",
      "written",
    ]),
    cpuRow(rounds, ["followed", "written"]),
  ];
}

async function blocksOf(kind: Feed): Promise<readonly Round[]> {
  await using server = await startServer("receiver-with-switch", "{}");
  server.writeFeed(kind !== "silent");
  await round({ server, load: hook, most: WARM_UP }, ENOUGH_MS);
  await quiet(server);
  const blocks: Round[] = [];
  while (blocks.length < BLOCKS) blocks.push(await accept(server, kind));
  return blocks;
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

function rowOf(rounds: Rounds, [ours, control]: readonly [Feed, Feed], key: "perSecond" | "cpuMicros") {
  const value = median(rounds[ours].map((each) => each[key]));
  const known = median(rounds[control].map((each) => each[key]));
  return { value, control: known, ratio: value / known };
}

function rateRow(name: string, rounds: Rounds, pair: readonly [Feed, Feed]): BenchRow {
  return { name, unit: "requests/s", ...rowOf(rounds, pair, "perSecond") };
}

function cpuRow(rounds: Rounds, pair: readonly [Feed, Feed]): BenchRow {
  return { name: "  server CPU for one", unit: "us", ...rowOf(rounds, pair, "cpuMicros") };
}

await runAlone(import.meta.url, run);

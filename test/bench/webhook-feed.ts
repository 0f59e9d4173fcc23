import { startServer, type Server } from "./child.ts";
import { follow } from "./follower.ts";
import { median, runAlone, type BenchRow } from "./row.ts";
import { hook, quiet, round, type Round } from "./webhook.ts";

/** Processes, each of which does the same with and without the feed. */
const PROCESSES = 3;
/** A block ends with its requests, so that all do the same work. */
const ENOUGH_MS = 120_000;
const WARM_UP = 4_000;
const REQUESTS = 1_200;
const GOAL_RATIO = 0.95;
/** An event is longer. */
const MIN_EVENT_BYTES = 200;

/** `silent`: no feed is written. `written`: it is, and nobody follows it. `followed`: one subscriber follows it. */
type Feed = "silent" | "written" | "followed";
/** In a process, what is later is cheaper: each comes before each other as often as behind it. */
const ORDERS: readonly (readonly Feed[])[] = [
  ["silent", "written", "followed"],
  ["followed", "written", "silent"],
  ["written", "followed", "silent"],
  ["silent", "followed", "written"],
  ["followed", "silent", "written"],
  ["written", "silent", "followed"],
];
type Rounds = Readonly<Record<Feed, Round[]>>;

/** What the change feed costs webhooks and their runs: writing it, and following it beside that on the same two processors. */
export async function run(): Promise<readonly BenchRow[]> {
  const rounds: Rounds = { silent: [], written: [], followed: [] };
  for (let n = 0; n < PROCESSES; n++) {
    await using server = await startServer("receiver-with-switch", "{}");
    await round({ server, load: hook, most: WARM_UP }, ENOUGH_MS);
    await quiet(server);
    for (const order of ORDERS) for (const kind of order) rounds[kind].push(await accept(server, kind));
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

async function accept(server: Server, feed: Feed): Promise<Round> {
  server.writeFeed(feed !== "silent");
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

/** The ratio is the middle one of those of blocks that follow each other: what processes do differs by more than the feed costs. */
function rowOf(rounds: Rounds, [ours, control]: readonly [Feed, Feed], key: "perSecond" | "cpuMicros") {
  return {
    value: median(rounds[ours].map((each) => each[key])),
    control: median(rounds[control].map((each) => each[key])),
    ratio: median(rounds[ours].map((each, n) => each[key] / (rounds[control][n]?.[key] ?? Number.NaN))),
  };
}

function rateRow(name: string, rounds: Rounds, pair: readonly [Feed, Feed]): BenchRow {
  return { name, unit: "requests/s", ...rowOf(rounds, pair, "perSecond") };
}

function cpuRow(rounds: Rounds, pair: readonly [Feed, Feed]): BenchRow {
  return { name: "  server CPU for one", unit: "us", ...rowOf(rounds, pair, "cpuMicros") };
}

await runAlone(import.meta.url, run);

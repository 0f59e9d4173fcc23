import { startServer, type Server } from "./child.ts";
import { follow } from "./follower.ts";
import { median, runAlone, type BenchRow } from "./row.ts";
import { hook, quiet, round, type Round } from "./webhook.ts";

/** In each round, the three kinds are processes of their own: one that switched would run code that V8 had optimised for the other kind. */
const ROUNDS = 12;
/** Blocks of each kind in a round. Two processes of one kind differ by up to a tenth, so rounds tell more than turns. */
const TURNS = 8;
/** A block ends with its requests, so that all do the same work. */
const ENOUGH_MS = 120_000;
const WARM_UP = 4_000;
/** Short, so that what is compared ran within the same second: the speed of shared machines changes from one to the next. */
const REQUESTS = 600;
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
/** A block of each kind, made one after the other. */
type Turn = Readonly<Record<Feed, Round>>;

/** What the change feed costs webhooks and their runs: writing it, and following it beside that on the same two processors. */
export async function run(): Promise<readonly BenchRow[]> {
  const turns: Turn[] = [];
  for (let n = 0; n < ROUNDS; n++) turns.push(...(await turnsOfRound()));
  const written = rateRow("webhooks accepted and run with the change feed, by without", turns, [
    "written",
    "silent",
  ]);
  return [
    { ...written, goal: `>= ${GOAL_RATIO}x`, met: (written.ratio ?? 0) >= GOAL_RATIO },
    cpuRow(turns, ["written", "silent"]),
    rateRow("  with a subscriber on the same machine, by the feed without one", turns, [
      "followed",
      "written",
    ]),
    cpuRow(turns, ["followed", "written"]),
  ];
}

async function turnsOfRound(): Promise<readonly Turn[]> {
  await using silent = await warmServer("silent");
  await using written = await warmServer("written");
  await using followed = await warmServer("followed");
  const servers: Readonly<Record<Feed, Server>> = { silent, written, followed };
  const turns: Turn[] = [];
  for (let n = 0; n < TURNS; n++) {
    const turn: Partial<Record<Feed, Round>> = {};
    for (const kind of ORDERS[n % ORDERS.length] ?? []) turn[kind] = await accept(servers[kind], kind);
    turns.push(turn as Turn);
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

/** The ratio is the median of those of the turns: what slowed one block of a turn slowed the others, too. */
function rowOf(
  turns: readonly Turn[],
  [ours, control]: readonly [Feed, Feed],
  key: "perSecond" | "cpuMicros",
) {
  return {
    value: median(turns.map((turn) => turn[ours][key])),
    control: median(turns.map((turn) => turn[control][key])),
    ratio: median(turns.map((turn) => turn[ours][key] / turn[control][key])),
  };
}

function rateRow(name: string, turns: readonly Turn[], pair: readonly [Feed, Feed]): BenchRow {
  return { name, unit: "requests/s", ...rowOf(turns, pair, "perSecond") };
}

function cpuRow(turns: readonly Turn[], pair: readonly [Feed, Feed]): BenchRow {
  return { name: "  server CPU for one", unit: "us", ...rowOf(turns, pair, "cpuMicros") };
}

await runAlone(import.meta.url, run);

import { startServer } from "./child.ts";
import { follow } from "./follower.ts";
import { runAlone, type BenchRow } from "./row.ts";
import { BURST, cpuRow, hook, middle, quiet, rateRow, round, waiting, type Round } from "./webhook.ts";

const ROUNDS = 6;
/** Rounds end with their requests, so that both do the same work at the same warmth. */
const ENOUGH_MS = 120_000;
const WARM_UP = 300;
const GOAL_RATIO = 0.95;
/** An event is longer. */
const MIN_EVENT_BYTES = 200;

/** `silent`: no feed is written. `written`: it is, and nobody follows it. `followed`: one subscriber follows it. */
type Feed = "silent" | "written" | "followed";

/** What the change feed costs accepting: writing it, and following it beside that on the same two processors. */
export async function run(): Promise<readonly BenchRow[]> {
  const rounds: Readonly<Record<Feed, Round[]>> = { silent: [], written: [], followed: [] };
  const kinds = Object.keys(rounds) as Feed[];
  for (let n = 0; n < ROUNDS; n++) {
    // Each goes first as often as the others.
    const order = [...kinds.slice(n % kinds.length), ...kinds.slice(0, n % kinds.length)];
    for (const kind of order) rounds[kind].push(await accept(kind));
  }
  const [silent, written, followed] = [
    middle(rounds.silent),
    middle(rounds.written),
    middle(rounds.followed),
  ];
  const {
    goal: _,
    met: __,
    ...beside
  } = rateRow("  with a subscriber on the same machine, by the feed without one", [followed, written], 0);
  return [
    rateRow("webhooks accepted with the change feed, by without", [written, silent], GOAL_RATIO),
    cpuRow([written, silent]),
    beside,
    cpuRow([followed, written]),
  ];
}

/** So many runs may wait in a process: a round is a process of its own. */
async function accept(feed: Feed): Promise<Round> {
  await using server = await startServer(feed === "silent" ? "receiver-without-feed" : "receiver", "{}");
  await round({ server, load: hook, most: WARM_UP }, ENOUGH_MS);
  await quiet(server);
  const [follower] = feed === "followed" ? await follow(server.apiUrl, "/v1/events", 1) : [];
  const rates = await round({ server, load: waiting, most: BURST }, ENOUGH_MS);
  if (!follower) return rates;
  await quiet(server);
  // Each webhook is at least an event of its delivery and one of its run.
  if (follower.bytes < rates.answers * 2 * MIN_EVENT_BYTES) {
    throw new Error(`the subscriber got ${follower.bytes} bytes for ${rates.answers} webhooks`);
  }
  follower.cut();
  return rates;
}

await runAlone(import.meta.url, run);

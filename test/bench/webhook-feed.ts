import { follow } from "./follower.ts";
import { runAlone, type BenchRow } from "./row.ts";
import {
  BURST,
  cpuRow,
  hook,
  middle,
  quiet,
  rateRow,
  receiver,
  round,
  waiting,
  type Round,
} from "./webhook.ts";

const ROUNDS = 6;
/** Rounds end with their requests, so that both do the same work at the same warmth. */
const ENOUGH_MS = 120_000;
const WARM_UP = 300;
const GOAL_RATIO = 0.95;
/** An event is longer. */
const MIN_EVENT_BYTES = 200;

/** What accepting webhooks costs with a subscriber of the change feed, by the same without one. */
export async function run(): Promise<readonly BenchRow[]> {
  const alone: Round[] = [];
  const followed: Round[] = [];
  for (let n = 0; n < ROUNDS; n++) {
    // Each goes first as often as the other.
    for (const isFollowed of n % 2 === 0 ? [true, false] : [false, true]) {
      (isFollowed ? followed : alone).push(await accept(isFollowed));
    }
  }
  const rates = [middle(followed), middle(alone)] as const;
  return [
    rateRow("webhooks accepted with a subscriber of the feed, by without", rates, GOAL_RATIO),
    cpuRow(rates),
  ];
}

/** So many runs may wait in a process: a round is a process of its own. */
async function accept(isFollowed: boolean): Promise<Round> {
  await using server = await receiver({});
  await round({ server, load: hook, most: WARM_UP }, ENOUGH_MS);
  await quiet(server);
  const [follower] = isFollowed ? await follow(server.apiUrl, "/v1/events", 1) : [];
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

/** Claims all work for an hour and never answers: `url`. */
import process from "node:process";
import { openStore } from "../../../src/store/open.ts";

const [url = ""] = process.argv.slice(2);
// The parent's clock stands near the epoch's beginning; so does this one.
const store = await openStore({ url, now: () => 1_000_000 });
const jobs = await store.write((tx) =>
  store.queue.claim(tx, { kinds: ["work"], limit: 100, leaseMs: 3_600_000 }),
);
process.stdout.write(`${JSON.stringify({ owner: store.owner, claimed: jobs.length })}\n`);
setInterval(() => {}, 1_000);

/** Claims all messages for an hour and never sends them: `url`. */
import process from "node:process";
import { openStore } from "../../../src/store/open.ts";
import { endWithParent } from "./child.ts";

const [url = ""] = process.argv.slice(2);
// The parent's clock starts near the epoch; so does this one.
const store = await openStore({ url, now: () => 1_000_000 });
const messages = await store.write((tx) => store.outbox.claim(tx, { limit: 100, leaseMs: 3_600_000 }));
process.stdout.write(`${JSON.stringify({ owner: store.owner, claimed: messages.length })}\n`);
endWithParent();

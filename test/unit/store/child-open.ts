/** Opens the store, says its epoch, closes it: `url`. */
import process from "node:process";
import { openStore } from "../../../src/store/open.ts";

const store = await openStore({ url: process.argv[2] ?? "" });
process.stdout.write(`${JSON.stringify(store.epoch)}\n`);
await store.close();

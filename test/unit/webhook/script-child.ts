/** A process that starts a script and goes before it has ended. The script's folder is its one argument. */
import process from "node:process";
import { createRunScript } from "../../../src/webhook/receive/ports.ts";

const folder = process.argv[2] ?? "";
const runScript = createRunScript({ folder, timeoutMs: 60_000, envPassthrough: [], log: { warn: () => {} } });
void runScript("hang.sh", { payload: {}, event: "push", deliveryId: "d" });
// The parent sends a message when the file of the script exists.
process.stdin.once("data", () => process.exit(0));

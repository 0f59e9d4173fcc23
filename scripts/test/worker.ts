// Runs the test files that its pool hands over, one after the other, in this one process.
import { once } from "node:events";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { createGuard } from "../../test/harness/guard.ts";
import { LAST } from "./events.ts";
import { beginTracking, endTracking } from "./tracking.ts";

const LOOK_EVERY_MS = 500;
const guard = createGuard();

// Without a pool nobody reads the results. A listener for its end would keep a process alive whose test waits for nothing.
setInterval(() => process.connected || process.exit(1), LOOK_EVERY_MS).unref();

for await (const file of filesOfPool()) {
  beginTracking();
  await test(file, async (t) => {
    guard.watchTestsOf(t);
    await import(pathToFileURL(file).href).finally(endTracking);
    await t.test(LAST, () => {});
    guard.endFileOf(t);
  });
}
// Whatever a test left open must not keep the process alive.
process.exit();

/** Files as the pool hands them over; an empty name ends them. */
async function* filesOfPool(): AsyncGenerator<string> {
  for (;;) {
    const [file] = (await once(process, "message")) as [string];
    if (file === "") return;
    yield file;
  }
}

/** Sends what is owed to the platform of the crash test, until it is killed: database, the platform's URL, a name. */
import process from "node:process";
import { systemClock } from "../../src/base/time.ts";
import { silentLog } from "../../src/base/observe.ts";
import { Dispatcher } from "../../src/deliver/outbox/dispatch.ts";
import { createTargets, type Target } from "../../src/deliver/target.ts";
import { openStore } from "../../src/store/open.ts";
import { endWithParent } from "../unit/store/child.ts";

const [url = "", platform = "", life = ""] = process.argv.slice(2);

/** As a target of long texts does it: part after part, each noted before the next goes. */
const chat = (name: string, more: Partial<Target>): Target => ({
  name,
  ...more,
  async send({ id, address, payload, partsSent }, { progress, signal }) {
    const { parts } = payload as { readonly parts: readonly string[] };
    for (const [part, text] of parts.entries()) {
      if (part < partsSent) continue;
      const response = await fetch(`${platform}/${name}/${address}/messages`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "idempotency-key": `${id}:${part}`,
          "user-agent": life,
        },
        body: JSON.stringify({ text }),
        signal,
      });
      await response.body?.cancel();
      if (response.status === 503) return { status: "retry", error: "503", afterMs: 5 };
      if (response.status !== 201) return { status: "permanent", error: `It answered ${response.status}.` };
      await progress(part + 1);
    }
    return { status: "delivered" };
  },
});

const store = await openStore({ url });
const retryDelaysMs = Array.from({ length: 1_000 }, () => 5);
const targets = createTargets([chat("chat", { supportsIdempotency: true }), chat("forgetful", {})]);
await new Dispatcher({
  store,
  clock: systemClock,
  log: silentLog,
  targets,
  retryDelaysMs,
  pollMs: 50,
}).start();
console.log(JSON.stringify("started"));
endWithParent();

/** Sends what is owed, until it is killed: `url`, and a host that may be private. */
import process from "node:process";
import { systemClock } from "../../../src/base/time.ts";
import { silentLog } from "../../../src/base/observe.ts";
import { Dispatcher } from "../../../src/deliver/outbox/dispatch.ts";
import { createTargets } from "../../../src/deliver/target.ts";
import { createWebhookTarget } from "../../../src/deliver/targets/webhook.ts";
import { openStore } from "../../../src/store/open.ts";
import { endWithParent } from "../store/child.ts";

const [url = "", host = ""] = process.argv.slice(2);
const clock = systemClock;
const target = createWebhookTarget({ clock, version: "child", allowedPrivateHosts: [host] });
const store = await openStore({ url });
await new Dispatcher({ store, clock, log: silentLog, targets: createTargets([target]) }).start();
endWithParent();

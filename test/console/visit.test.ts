import { test } from "node:test";
import { startConsole } from "../harness/browser.ts";
import {
  askInChat,
  assertOnce,
  KEYBOARD,
  makeRoute,
  mendRoute,
  MOUSE,
  pressAllow,
  pressCreateJob,
  pressReplay,
  pressRetry,
  runJob,
  seeAnswer,
  seeAnswerOrCut,
  seeCost,
  seeDeadLetter,
  seeDelivered,
  seeDeliveredOrUncertain,
  seeJob,
  seeRefusal,
  seeReplay,
  startChatService,
  writeJob,
  type Hands,
  type Visit,
} from "../harness/console-visit.ts";

/** What happens after each press that changes something, before its result is seen. */
type Meanwhile = (visit: Visit) => Promise<void>;

async function visitAll(hands: Hands, meanwhile?: Meanwhile): Promise<void> {
  await using chats = await startChatService();
  await using shown = await startConsole({ config: chats.config as Record<string, unknown> });
  const page = await shown.open();
  const visit: Visit = { shown, page, hands, chats };
  await askInChat(visit);
  await pressAllow(visit);
  await meanwhile?.(visit);
  await (meanwhile ? seeAnswerOrCut(visit) : seeAnswer(visit));
  await seeRefusal(visit, await makeRoute(visit));
  await mendRoute(visit);
  await pressReplay(visit);
  await meanwhile?.(visit);
  await seeReplay(visit);
  await writeJob(visit);
  await pressCreateJob(visit);
  await meanwhile?.(visit);
  await seeJob(visit);
  await runJob(visit);
  await seeDeadLetter(visit);
  await pressRetry(visit);
  await meanwhile?.(visit);
  await (meanwhile ? seeDeliveredOrUncertain(visit) : seeDelivered(visit));
  await seeCost(visit);
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");
  await assertOnce(visit, meanwhile ? ["delivered", "unknown"] : undefined);
}

test("a stranger chats, approves, mends and replays a webhook, makes a job, retries a message and sees the cost", () =>
  visitAll(MOUSE));

test("every flow by keyboard alone", () => visitAll(KEYBOARD));

test("a kill of the gateway right after each press of a visit loses and doubles nothing", () =>
  visitAll(MOUSE, async ({ shown }) => {
    await shown.kill();
    await shown.restart();
  }));

import { test } from "node:test";
import { awayBanner, conversation, startConsole } from "../harness/browser.ts";
import {
  allow,
  ask,
  assertOnce,
  createJob,
  KEYBOARD,
  makeRoute,
  mendRoute,
  MOUSE,
  replay,
  retry,
  runJob,
  seeCost,
  seeDeadLetter,
  seeForgery,
  seeRefusal,
  startChatService,
  undisturbed,
  writeJob,
  type Begun,
  type Visit,
} from "../harness/console-visit.ts";
import {
  calling,
  saying,
  startModelServer,
  type ModelReply,
  type ModelServer,
} from "../harness/openai-server.ts";

async function visitAll(visit: Visit): Promise<void> {
  const { page } = visit;
  await ask(visit);
  await allow(visit);
  const route = await makeRoute(visit);
  await seeForgery(visit, route);
  await seeRefusal(visit, route);
  await mendRoute(visit);
  await replay(visit);
  await writeJob(visit);
  await createJob(visit);
  await runJob(visit);
  await seeDeadLetter(visit);
  await retry(visit);
  await seeCost(visit);
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");
  await assertOnce(visit);
}

for (const [title, hands] of [
  [
    "a stranger chats, approves, mends and replays a webhook, makes a job, retries a message and sees the cost",
    MOUSE,
  ],
  ["every flow by keyboard alone", KEYBOARD],
] as const) {
  test(title, async () => {
    await using chats = await startChatService();
    await using shown = await startConsole({ config: chats.config });
    await visitAll(undisturbed({ shown, page: await shown.open(), hands, chats }));
  });
}

type Decide = (visit: Visit, press: () => Promise<void>, begins: Begun) => Promise<void>;

/** A visit in which every press is done as `decide` says. */
async function visitWithKills(decide: Decide, models?: ModelServer): Promise<void> {
  await using chats = await startChatService();
  await using shown = await startConsole({ config: chats.config, ...(models ? { models } : {}) });
  const calm = undisturbed({ shown, page: await shown.open(), hands: MOUSE, chats });
  const visit: Visit = { ...calm, mayBeCut: true, decide: (press, begins) => decide(visit, press, begins) };
  try {
    await visitAll(visit);
  } catch (error) {
    const seen = await shown.page.locator("body").innerText();
    throw new Error(`${shown.page.url()} showed:\n${seen}`, { cause: error });
  }
}

test("every press of a visit while the gateway is away is done once, when it is back", () =>
  visitWithKills(async ({ shown, page }, press) => {
    await shown.kill();
    await awayBanner(page).waitFor();
    await press();
    await shown.restart();
  }));

test("a kill of the gateway right after every press of a visit loses and doubles nothing", () =>
  visitWithKills(async ({ shown }, press) => {
    await press();
    await shown.kill();
    await shown.restart();
  }));

test("a kill of the gateway in the middle of all that a visit begins loses and doubles nothing", async () => {
  let begun = Promise.withResolvers<void>();
  await using models = await startSlowModel(() => begun.resolve());
  await visitWithKills(async ({ shown, page, chats }, press, begins) => {
    begun = Promise.withResolvers<void>();
    if (begins === "message") chats.accept(() => begun.resolve());
    await press();
    if (begins !== "nothing") await begun.promise;
    if (page.url().includes("/chat/")) await conversation(page).getByText("Half an answer").first().waitFor();
    await shown.kill();
    await shown.restart();
  }, models);
});

/** A model that never ends its first answer to a request of each kind, and tells when it has begun it. */
function startSlowModel(onBegun: () => void): Promise<ModelServer> {
  const seen = new Set<string>();
  return startModelServer(({ body }) => {
    const last = JSON.stringify(body.messages.at(-1));
    const [kind, reply] = KINDS.find(([text]) => last.includes(text)) ?? [];
    if (kind === undefined || !reply) return saying("A title");
    if (seen.has(kind)) return reply;
    seen.add(kind);
    onBegun();
    return { pieces: [{ text: "Half an answer" }, { hang: true }] };
  });
}

const REMOVE = { id: "call_1", name: "terminal", json: JSON.stringify({ command: "rm -rf ./build-folder" }) };

/** By what the last message has. */
const KINDS: readonly (readonly [text: string, reply: ModelReply])[] = [
  ['"role":"tool"', saying("terminal answered (ok)")],
  ["rm -rf", calling(REMOVE)],
  ["The build is red", saying("The build is red since noon.")],
  ["what is new", saying("Nothing is new.")],
];

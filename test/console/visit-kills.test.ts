import { test } from "node:test";
import { awayBanner, conversation, startConsole } from "../harness/browser.ts";
import {
  MOUSE,
  startChatService,
  undisturbed,
  visitAll,
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

/** A chat without a screen, at a real gateway: what a person would do is called, what they would see is read. */
import { connectGateway, webSocketTransport, type GatewayTransport } from "../../../src/client/gateway.ts";
import { Chat } from "../../../src/client/conversation/chat.ts";
import {
  createStore,
  type ChatState,
  type Question,
  type TranscriptItem,
} from "../../../src/client/conversation/state.ts";
import type { ChatMachine } from "../../../src/client/conversation/actions.ts";
import type { SessionTarget } from "../../../src/client/conversation/current-session.ts";
import { KEY } from "../../harness/service.ts";

export interface TestChat extends AsyncDisposable {
  readonly chat: Chat;
  /** Aborted once the chat was left. */
  readonly left: AbortSignal;
  state(): ChatState;
  /** Waits until `look` finds something. */
  until<T>(look: (state: ChatState) => T | undefined | false): Promise<T>;
  /** Waits until a turn has ended and none is at work. */
  answered(text: string | RegExp): Promise<void>;
  /** Waits for a question of that kind. */
  asked<K extends Question["kind"]>(kind: K): Promise<Extract<Question, { kind: K }>>;
}

export async function startChat(
  transport: GatewayTransport,
  target: SessionTarget = { kind: "new" },
  /** Called before the session is open. */
  early: (chat: Chat) => void = () => {},
  machine?: ChatMachine,
): Promise<TestChat> {
  const store = createStore();
  const left = new AbortController();
  const client = await connectGateway({ transport });
  const chat = new Chat({
    call: (method, ...args) => client.call(method, ...args),
    store,
    now: Date.now,
    leave: () => left.abort(),
    ...(machine === undefined ? {} : { machine }),
  });
  const following = (async () => {
    for await (const event of client.events()) chat.take(event);
  })();
  const end = async () => {
    await client.close();
    await following;
  };
  early(chat);
  await chat.open(target).catch(async (error: unknown) => {
    await end();
    throw error;
  });
  const until: TestChat["until"] = (look) => {
    const { promise, resolve } = Promise.withResolvers<NonNullable<ReturnType<typeof look>>>();
    const see = () => {
      const found = look(store.get());
      if (found !== undefined && found !== false) resolve(found as never);
    };
    const unsubscribe = store.subscribe(see);
    see();
    return promise.finally(unsubscribe) as never;
  };
  return {
    chat,
    left: left.signal,
    state: store.get,
    until,
    answered: async (text) => {
      await until((state) => state.turn === undefined && shown(state).some((line) => isMatch(line, text)));
    },
    asked: (kind) => until(({ questions }) => questions.find((each) => each.kind === kind) as never),
    [Symbol.asyncDispose]: end,
  };
}

export function socketOf(service: { readonly url: string }): GatewayTransport {
  return webSocketTransport({ url: service.url, token: KEY });
}

/** One line an item, the settled ones first: `kind: text`. */
export function shown({ settled, live }: ChatState): readonly string[] {
  return [...settled, ...live].map((item) => `${item.kind}: ${textOf(item)}`);
}

function textOf(item: TranscriptItem): string {
  if (item.kind === "tool") return `${item.name} ${item.status}`;
  return item.kind === "subagent" ? `${item.goal} ${item.status}` : item.text;
}

function isMatch(line: string, text: string | RegExp): boolean {
  return typeof text === "string" ? line === text : text.test(line);
}

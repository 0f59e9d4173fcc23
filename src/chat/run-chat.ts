/** `agentd chat` at a terminal: a client, a screen, and what stands between them. */
import {
  connectGateway,
  EventsLostError,
  type GatewayClient,
  type GatewayTransport,
} from "../client/gateway.ts";
import { Chat } from "./chat.ts";
import { createStore, type WritableStore } from "./state/state.ts";
import type { RenderChat } from "./screen.ts";
import type { SessionTarget } from "./current-session.ts";

export interface ChatProgram {
  readonly transport: GatewayTransport;
  readonly version: string;
  readonly target: SessionTarget;
  /** `provider:model` for the session. */
  readonly model?: string;
  /** The first prompt. */
  readonly prompt?: string;
}

interface TerminalProgram extends ChatProgram {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  readonly hasColour: boolean;
  readonly render: () => Promise<RenderChat>;
}

/** Resolves when the person left, to the session that was shown last; rejects when there was nothing to show. */
export async function runChat(program: TerminalProgram): Promise<string | undefined> {
  const { transport, version, input, output, hasColour } = program;
  const over = new AbortController();
  const store = createStore();
  // The gateway starts while the screen is loaded.
  const client = connectGateway({
    transport,
    client: { name: "agentd-chat", version },
    signal: over.signal,
  });
  let failure: unknown;
  const fail = (error: unknown) => {
    // Whoever left in the meantime wants no word about what did not come about.
    if (over.signal.aborted) return;
    failure = error;
    over.abort();
  };
  const chat = new Chat({
    call: async (method, ...args) => (await client).call(method, ...args),
    store,
    now: Date.now,
    leave: () => over.abort(),
  });
  client.then((connected) => begin(connected, { chat, store, program })).catch(fail);
  try {
    const renderChat = await program.render();
    await renderChat({ store, actions: chat, input, output, hasColour, signal: over.signal });
  } finally {
    over.abort();
    await client.then(
      (connected) => connected.close(),
      () => {},
    );
  }
  if (failure !== undefined) throw failure;
  const { session, settled } = store.get();
  return settled.some(({ kind }) => kind === "user") ? session?.id : undefined;
}

interface Begun {
  readonly chat: Chat;
  readonly store: WritableStore;
  readonly program: ChatProgram;
}

async function begin(client: GatewayClient, { chat, store, program }: Begun): Promise<void> {
  const { target, model, prompt } = program;
  void follow(client, chat);
  store.update((state) => ({ ...state, connection: { kind: "ready" } }));
  await chat.open(target);
  if (model !== undefined && target.kind !== "new") await chat.chooseModel(model);
  if (prompt !== undefined) chat.submit(prompt);
}

/** Hands on all events, for as long as there are any. */
async function follow(client: GatewayClient, chat: Chat): Promise<void> {
  try {
    for await (const event of client.events()) chat.take(event);
  } catch (error) {
    if (!(error instanceof EventsLostError)) {
      const message = error instanceof Error ? error.message : String(error);
      return chat.take({
        type: "client.state",
        ts: Date.now(),
        payload: { state: "closed", attempt: 0, message: `${message} Leave, and start again.` },
      });
    }
    // The screen could not keep up: what is shown is read anew.
    const again = follow(client, chat);
    chat.reload();
    return again;
  }
}

/** `agentd chat` at a terminal: connects the client and the screen. */
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
  /** Model of the session, as `provider:model`. */
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

/** Runs the chat. Resolves to the last session when the user leaves; rejects when the chat failed. */
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
    // After the user left, failures do not matter.
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

/** Passes all events to the chat. */
async function follow(client: GatewayClient, chat: Chat): Promise<void> {
  try {
    for await (const event of client.events()) chat.take(event);
  } catch (error) {
    if (!(error instanceof EventsLostError)) {
      const message = error instanceof Error ? error.message : String(error);
      return chat.take({
        type: "client.state",
        ts: Date.now(),
        payload: { state: "closed", attempt: 0, message: `${message} Leave the chat and start it again.` },
      });
    }
    // Events were lost: reload the session.
    const again = follow(client, chat);
    chat.reload();
    return again;
  }
}

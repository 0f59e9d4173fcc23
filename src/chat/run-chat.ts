/** `agentd chat` at a terminal: connects the client and the screen. */
import {
  connectGateway,
  EventsLostError,
  type GatewayClient,
  type GatewayTransport,
} from "../client/gateway.ts";
import { Chat } from "../client/conversation/chat.ts";
import { createStore, type WritableStore } from "../client/conversation/state.ts";
import type { ChatMachine } from "../client/conversation/actions.ts";
import type { RenderChat } from "./screen.ts";
import type { SessionTarget } from "../client/conversation/current-session.ts";

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
  /** Whether the terminal's background is light. */
  readonly isLight: boolean;
  readonly render: () => Promise<RenderChat>;
  readonly machine: ChatMachine;
}

/** Runs the chat. Resolves to the last session when the user leaves; rejects when the chat failed. */
export async function runChat(program: TerminalProgram): Promise<string | undefined> {
  const { transport, version, input, output, hasColour, isLight, machine } = program;
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
  const here: ChatMachine = {
    ...machine,
    copy: async (text) => (await machine.copy(text)) || copyByTerminal(output, text),
  };
  const chat = new Chat({
    call: async (method, ...args) => (await client).call(method, ...args),
    store,
    now: Date.now,
    leave: () => over.abort(),
    machine: here,
  });
  // Without its history the chat works too.
  chat.loadHistory().catch(() => {});
  client.then((connected) => begin(connected, { chat, store, program })).catch(fail);
  try {
    const renderChat = await program.render();
    const { editText } = machine;
    const { signal } = over;
    await renderChat({ store, actions: chat, input, output, hasColour, isLight, editText, signal });
  } finally {
    over.abort();
    await chat.kept();
    await client.then(
      (connected) => connected.close(),
      () => {},
    );
  }
  if (failure !== undefined) throw failure;
  const { session, settled } = store.get();
  return settled.some(({ kind }) => kind === "user") ? session?.id : undefined;
}

/** Terminals drop longer texts. */
const MAX_COPIED_CHARACTERS = 70_000;

/** Asks the terminal to put text into the clipboard (OSC 52), which also works over SSH. Terminals do not answer. */
function copyByTerminal(output: NodeJS.WriteStream, text: string): boolean {
  if (text.length > MAX_COPIED_CHARACTERS) return false;
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte));
  output.write(`\u{1b}]52;c;${btoa(bytes.join(""))}\u{7}`);
  return true;
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
  else if (target.kind === "new") chat.welcome();
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

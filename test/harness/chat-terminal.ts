/** `agentd chat` in a real terminal, over a model that does as the test says. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startModelServer, type ChatBody, type ModelReply, type ModelServer } from "./openai-server.ts";
import { agentdCommand } from "./program.ts";
import { startTerminal, type Terminal, type TerminalOptions } from "./terminal.ts";

export interface ChatPlace extends AsyncDisposable {
  readonly home: string;
  /** Where the chat works. */
  readonly folder: string;
  readonly models: ModelServer;
  /** Starts `agentd chat` with these arguments. */
  chat(args?: readonly string[], options?: Omit<TerminalOptions, "command">): Promise<Terminal>;
}

/** What the model answers to a conversation, whose last message is given as text. */
export type Answers = (last: string, body: ChatBody) => ModelReply;

/** A home whose model is a server of this machine. */
export async function createChatPlace(answers: Answers): Promise<ChatPlace> {
  const base = await mkdtemp(join(tmpdir(), "agentd-chat-"));
  const [home, folder] = [join(base, "home"), join(base, "work")];
  await Promise.all([mkdir(home, { mode: 0o700 }), mkdir(folder)]);
  const models = await startModelServer(({ body }) => answers(lastText(body), body));
  const provider = `{ type: openai_compatible, base_url: "${models.baseUrl}", models: [test-model] }`;
  const config = `model:\n  default: local:test-model\n  providers:\n    local: ${provider}\nsessions:\n  titles: prompt\n`;
  await writeFile(join(home, "config.yaml"), config);
  return {
    home,
    folder,
    models,
    chat: (args = [], { env, ...options } = {}) =>
      startTerminal({
        command: agentdCommand("chat", ...args),
        cwd: folder,
        env: { AGENTD_HOME: home, HOME: base, ...env },
        ...options,
      }),
    async [Symbol.asyncDispose]() {
      await models[Symbol.asyncDispose]();
      await rm(base, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

/** Presses the key until the screen shows what is wanted: a card that is too young takes no keys. */
export async function pressUntil(terminal: Terminal, key: string, wanted: RegExp): Promise<string> {
  for (let tries = 0; tries < 60; tries++) {
    await terminal.press(key);
    for (let looks = 0; looks < 12; looks++) {
      const screen = await terminal.screen();
      if (wanted.test(screen)) return screen;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error(`${key} never led to ${wanted}; the screen:\n${await terminal.screen()}`);
}

function lastText({ messages }: ChatBody): string {
  const content = messages.at(-1)?.["content"];
  if (typeof content === "string") return content;
  const parts = (Array.isArray(content) ? content : []) as readonly { readonly text?: string }[];
  return parts.map(({ text = "" }) => text).join("\n");
}

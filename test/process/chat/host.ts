/** The screen alone in a terminal: states come in as lines of JSON from a file that grows, calls go out into another. */
import { appendFileSync, readFileSync, watchFile } from "node:fs";
import type { ChatActions } from "../../../src/client/conversation/actions.ts";
import type { ChatState } from "../../../src/client/conversation/state.ts";
import { renderChat } from "../../../src/chat/view/render-chat.ts";

const [states = "", calls = ""] = process.argv.slice(2);
const ended = new AbortController();
const listeners = new Set<() => void>();
let [count, state] = [0, undefined as ChatState | undefined];

function read(): void {
  const lines = readFileSync(states, "utf8").split("\n").slice(0, -1);
  for (const line of lines.slice(count)) {
    const next: ChatState | "crash" | "end" = JSON.parse(line);
    if (next === "crash") throw new Error("crashed as told");
    if (next === "end") ended.abort();
    else state = next;
    for (const listener of listeners) listener();
  }
  count = lines.length;
}

read();
watchFile(states, { interval: 20 }, read);
const note =
  (name: string) =>
  (...args: readonly unknown[]) => {
    appendFileSync(calls, `${JSON.stringify([name, ...args])}\n`);
    if (name === "leave") ended.abort();
  };
const names = [
  "submit",
  "edit",
  "interrupt",
  "answer",
  "openPicker",
  "pick",
  "closePicker",
  "resize",
  "leave",
];
process.on("SIGTERM", () => ended.abort());
await renderChat({
  store: {
    get: () => state as ChatState,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  },
  actions: Object.fromEntries(names.map((name) => [name, note(name)])) as unknown as ChatActions,
  input: process.stdin,
  output: process.stdout,
  hasColour: process.env["NO_COLOR"] === undefined,
  signal: ended.signal,
});
process.stdout.write("the screen has ended\n");
process.exit(0);

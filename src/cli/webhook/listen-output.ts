/** What `agentd webhook listen` prints: lines for people, or lines of JSON. */
import { redact, redactValue } from "../../base/observe.ts";
import { print } from "../kit/output.ts";
import { eventText } from "../runs/text.ts";
import { oneLine, visible } from "../sessions/text.ts";
import type { Posted } from "./sender.ts";
import { answerText, block, iso, messageLine, stageLine, type WholeDelivery } from "./text.ts";
import type { WatchEvent } from "./watch.ts";

interface Sent {
  /** Without secrets. */
  readonly url: string;
  readonly bytes: number;
  readonly posted: Posted;
}

/** A line of text that does not end is printed in pieces of this length. */
const MAX_LINE_CHARACTERS = 4_000;

export class ListenOutput {
  readonly #isJson: boolean;
  readonly #isLong: boolean;
  /** The text of each open run that is not a whole line yet. */
  readonly #rest = new Map<string, string>();

  constructor({ isJson, isLong }: { readonly isJson: boolean; readonly isLong: boolean }) {
    this.#isJson = isJson;
    this.#isLong = isLong;
  }

  begin(url: string, { canSend }: { readonly canSend: boolean }): void {
    if (this.#isJson) return this.#json({ type: "listening", url });
    const hint = canSend ? " Enter sends a test event, Ctrl-C ends." : " Ctrl-C ends.";
    print(`  Listening to deliveries of ${url}.${hint}`);
  }

  sent({ url, bytes, posted }: Sent): void {
    if (this.#isJson) return this.#json({ type: "sent", url, ...posted });
    print(`  Sent ${bytes} bytes to ${url}\n${answerText(posted)}`);
  }

  show(event: WatchEvent): void {
    if (this.#isJson) this.#json(entryOf(event, this.#isLong));
    else this.#print(event);
  }

  #print(event: WatchEvent): void {
    switch (event.type) {
      case "delivery":
        return print(deliveryText(event.delivery, this.#isLong));
      case "run":
        return this.#printRun(event);
      case "message":
        return this.#line(event.id, `message ${messageLine(event.message)}`);
      case "ended": {
        const { status, reason } = event.delivery;
        this.#rest.delete(event.id);
        return this.#line(event.id, oneLine(`${status}${reason === null ? "" : `: ${reason}`}`));
      }
      case "skipped":
        return print(`  ${event.count} more deliveries are not shown: too many at once.`);
    }
  }

  /** Text is printed by the line, so that runs at the same time do not mix. */
  #printRun({ id, event }: Extract<WatchEvent, { type: "run" }>): void {
    if (event.event === "run.started") this.#line(id, `run ${event.run_id} started`);
    if (event.event === "run.completed") this.#line(id, `run ${event.run_id} completed`);
    const { text, line } = eventText(event);
    if (line !== undefined) this.#line(id, line);
    if (text === undefined) return;
    const lines = ((this.#rest.get(id) ?? "") + redact(text)).split("\n");
    const rest = lines.pop() ?? "";
    for (const each of lines) this.#line(id, `| ${visible(each)}`);
    const isLong = rest.length > MAX_LINE_CHARACTERS;
    if (isLong) this.#line(id, `| ${visible(rest)}`);
    this.#rest.set(id, isLong ? "" : rest);
  }

  /** The last characters of the id distinguish deliveries at the same time. */
  #line(id: string, text: string): void {
    print(`  [${id.slice(-4)}] ${text}`);
  }

  #json(value: object): void {
    print(JSON.stringify(value));
  }
}

function deliveryText(delivery: WholeDelivery, isLong: boolean): string {
  const { id, event, stages, payload, rendered, created_at: createdAt } = delivery;
  const tag = `  [${id.slice(-4)}]`;
  return [
    "",
    `${tag} ${id} ${oneLine(event)} at ${iso(createdAt)}`,
    ...(stages ?? []).map((each) => `${tag} ${stageLine(each)}`),
    ...(isLong && payload !== null ? [`${tag} payload:`, block(payload)] : []),
    ...(isLong && rendered !== null ? [`${tag} prompt:`, block(rendered)] : []),
  ].join("\n");
}

function entryOf(event: WatchEvent, isLong: boolean): object {
  switch (event.type) {
    case "delivery":
    case "ended": {
      const { payload, rendered, run: _, messages: __, ...delivery } = event.delivery as WholeDelivery;
      return { type: event.type, ...delivery, ...(isLong ? { payload, rendered } : {}) };
    }
    case "run":
      return { type: "run", id: event.id, event: redactValue(event.event) };
    case "message":
      return { type: "message", delivery: event.id, ...event.message };
    case "skipped":
      return event;
  }
}

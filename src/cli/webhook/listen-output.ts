/** What `agentd webhook listen` prints: lines for people, or lines of JSON. */
import { redact, redactValue } from "../../base/observe.ts";
import { shownStatus } from "../../deliver/outbox/message.ts";
import { parseTarget } from "../../deliver/target.ts";
import type { OutboxMessage } from "../../store/outbox/messages.ts";
import type { Delivery } from "../../webhook/deliveries/deliveries.ts";
import { print } from "../kit/output.ts";
import { eventText } from "../runs/text.ts";
import { oneLine, visible } from "../sessions/text.ts";
import type { Posted } from "./home.ts";
import { answerText, block, stageLine, summaryJson } from "./text.ts";
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
      case "message": {
        const { status, attempts, error, id, target } = event.message;
        const why = error === undefined || status === "delivered" ? "" : `, ${redact(error)}`;
        const count = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
        return this.#line(event.id, oneLine(`message ${id} to ${redact(target)}: ${status}, ${count}${why}`));
      }
      case "ended": {
        const { status, reason } = event.delivery;
        this.#rest.delete(event.id);
        return this.#line(event.id, oneLine(`${status}${reason === undefined ? "" : `: ${redact(reason)}`}`));
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

function deliveryText(delivery: Delivery, isLong: boolean): string {
  const { id, event, stages, payload, rendered, createdAtMs } = delivery;
  const tag = `  [${id.slice(-4)}]`;
  return [
    "",
    `${tag} ${id} ${oneLine(event)} at ${new Date(createdAtMs).toISOString()}`,
    ...stages.map((each) => `${tag} ${stageLine(each)}`),
    ...(isLong && payload !== undefined ? [`${tag} payload:`, block(redact(payload))] : []),
    ...(isLong && rendered !== undefined ? [`${tag} prompt:`, block(rendered)] : []),
  ].join("\n");
}

function entryOf(event: WatchEvent, isLong: boolean): object {
  switch (event.type) {
    case "delivery": {
      const { stages, payload, rendered } = event.delivery;
      const long = { payload: payload === undefined ? null : redact(payload), rendered: rendered ?? null };
      return { type: "delivery", ...summaryJson(event.delivery), stages, ...(isLong ? long : {}) };
    }
    case "run":
      return { type: "run", id: event.id, event: redactValue(event.event) };
    case "message":
      return { type: "message", delivery: event.id, ...messageEntry(event.message) };
    case "ended":
      return { type: "ended", ...summaryJson(event.delivery) };
    case "skipped":
      return event;
  }
}

/** Returns a message in the form of the API. */
function messageEntry(message: OutboxMessage): object {
  const { id, target, status, ref = null, attempts, partsSent, error, createdAtMs, endedAtMs } = message;
  return {
    id,
    platform: parseTarget(target).platform,
    target: redact(target),
    status: shownStatus(status),
    ref,
    attempts,
    parts_sent: partsSent,
    last_error: error === undefined ? null : redact(error),
    created_at: createdAtMs / 1000,
    ended_at: endedAtMs === undefined ? null : endedAtMs / 1000,
  };
}

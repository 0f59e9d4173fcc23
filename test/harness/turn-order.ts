/** The order rules of the gateway (contract, "Ordering of one turn"), held to everything that one host heard. */
import assert from "node:assert/strict";
import type { Json } from "./rpc.ts";

/** Events that belong to what a turn streams: none of them may come outside of one. */
const STREAMED = /^(message\.(delta|complete)|reasoning\.|tool\.|(approval|clarify|sudo|secret)\.request)/;
const QUESTION = /^(approval|clarify|sudo|secret)\.request$/;

/** What is left open when the frames end. */
export interface Open {
  readonly turn: string | undefined;
  readonly questions: ReadonlySet<string>;
}

/** Asserts the rules over the frames of one session, in their order. `from` is the number before the first event's. */
export function assertTurnOrder(frames: readonly Json[], sessionId: string, from?: number): Open {
  const rules = new Rules(from);
  for (const frame of frames) {
    if (frame.method === "event" && frame.params.session_id === sessionId) rules.event(frame.params);
    else if (frame.method !== undefined && frame.params?.session_id === sessionId) rules.asked(frame.id);
    else if (typeof frame.result?.turn_id === "string") rules.answered(frame.result);
  }
  rules.end();
  return { turn: rules.turn, questions: rules.questions };
}

class Rules {
  turn: string | undefined;
  readonly questions = new Set<string>();
  readonly #tools = new Set<string>();
  readonly #subagents = new Set<string>();
  readonly #requested = new Set<string>();
  readonly #begun = new Set<string>();
  readonly #completed = new Set<string>();
  #seq: number | undefined;
  #endOf: string | undefined;

  constructor(from: number | undefined) {
    this.#seq = from;
  }

  /** A submit's answer precedes what its turn tells. */
  answered({ status, turn_id: id, duplicate }: Json): void {
    if (duplicate || (status !== "streaming" && status !== "queued")) return;
    assert.ok(!this.#begun.has(id), `the answer of ${id} came behind its message.start`);
  }

  asked(id: string): void {
    assert.ok(this.turn !== undefined, "a question outside of a turn");
    this.questions.add(id);
  }

  event(event: Json): void {
    this.#number(event);
    if (this.#endOf !== undefined) return this.#ending(event);
    const { type, payload } = event;
    if (type === "message.start") return this.#start(event);
    if (STREAMED.test(type)) {
      assert.ok(this.turn !== undefined, `${type} outside of a turn`);
      assert.equal(event.turn_id, this.turn, `${type} of another turn`);
    }
    if (type === "message.complete") return this.#complete(event);
    if (type === "request.cancel") this.questions.delete(payload.id);
    else if (QUESTION.test(type)) this.#question(payload.request_id);
    else if (type.startsWith("tool.")) this.#tool(type, payload);
    else if (type.startsWith("subagent.")) this.#subagent(type, payload);
  }

  end(): void {
    assert.equal(this.#endOf, undefined, "the last turn has no session.info");
  }

  #number({ type, seq, first_seq: first = seq }: Json): void {
    if (seq === undefined) return;
    if (this.#seq !== undefined) assert.equal(first, this.#seq + 1, `a gap in the numbers before ${type}`);
    assert.ok(first <= seq);
    this.#seq = seq;
  }

  /** Behind `message.complete` comes `session.info`, and before it nothing. */
  #ending(event: Json): void {
    assert.equal(event.type, "session.info", `${event.type} between message.complete and session.info`);
    assert.equal(event.payload.running, false);
    this.#endOf = undefined;
  }

  #start({ turn_id: id, payload }: Json): void {
    assert.equal(this.turn, undefined, "a turn began in another");
    assert.equal(payload.turn_id, id);
    assert.ok(!this.#begun.has(id), "a turn began twice");
    this.#begun.add(id);
    this.turn = id;
  }

  #complete({ turn_id: id }: Json): void {
    assert.ok(!this.#completed.has(id), "a turn ended twice");
    assert.equal(this.#tools.size, 0, "a tool outlives its turn");
    assert.equal(this.questions.size, 0, "a question outlives its turn");
    this.#completed.add(id);
    this.turn = undefined;
    this.#endOf = id;
  }

  #question(id: string): void {
    assert.ok(this.#tools.size > 0, "a question outside of a tool");
    this.questions.add(id);
  }

  #tool(type: string, { tool_id: id, context }: Json): void {
    if (type === "tool.start") {
      assert.ok(!this.#tools.has(id), "a tool began twice");
      assert.ok(Array.from(context).length <= 80);
      this.#tools.add(id);
    } else if (type !== "tool.generating") {
      assert.ok(this.#tools.has(id), `${type} without its tool.start`);
      if (type === "tool.complete") this.#tools.delete(id);
    }
  }

  /** One that was requested and never started, such as by an interrupt between the two, ends as interrupted. */
  #subagent(type: string, { subagent_id: id, status }: Json): void {
    const hasStarted = this.#subagents.has(id);
    if (type === "subagent.start") this.#subagents.add(id);
    else if (type === "subagent.spawn_requested") assert.ok(!hasStarted);
    else if (type !== "subagent.complete" || status !== "interrupted" || !this.#requested.has(id))
      assert.ok(hasStarted, `${type} without its subagent.start`);
    if (type === "subagent.spawn_requested") this.#requested.add(id);
    if (type === "subagent.complete") {
      this.#subagents.delete(id);
      this.#requested.delete(id);
    }
  }
}

/** Asserts that two hosts heard the same, as far as both have heard. */
export function assertSameStream(one: readonly Json[], other: readonly Json[], why?: string): void {
  const last = Math.min(
    ...[one, other].map((events) => events.findLast(({ seq }) => seq !== undefined)?.seq ?? 0),
  );
  // What has no number goes with the event before it, and may be on its way still.
  const upTo = (events: readonly Json[]) =>
    events.slice(0, events.findLastIndex(({ seq }) => seq <= last) + 1);
  const [a, b] = [one, other].map((events) => essenceOf(upTo(events)));
  assert.deepEqual(a, b, why);
}

/**
 * What counts of a stream: without times, adjacent deltas as one, snapshots by what matters of them. A question that is
 * closed by now is told as a status when it is replayed, so it is here.
 */
export function essenceOf(events: readonly Json[]): readonly unknown[] {
  const shown: Json[] = [];
  const closed = new Set(
    events.filter(({ type }) => type === "request.cancel").map(({ payload }) => payload.id),
  );
  for (const event of events) {
    const { type, seq, turn_id: turn } = event;
    // Accompanies a numbered event, and may be lost behind it.
    if (type === "message.interim") continue;
    const last = shown.at(-1);
    if (/^(message|reasoning|thinking)\.delta$/.test(type) && last?.type === type && last.turn === turn) {
      last.seq = seq;
      last.payload = {
        text: type === "thinking.delta" ? event.payload.text : last.payload.text + event.payload.text,
      };
    } else if (QUESTION.test(type) && closed.has(event.payload.request_id)) {
      shown.push({ type: "status.update", seq, turn, payload: { kind: "approval", text: "" } });
    } else if (type === "session.info") {
      shown.push({ type, seq, turn, payload: { running: event.payload.running } });
    } else if (type === "message.complete") {
      // The usage is that of the session when the event is sent.
      const { usage: _, ...payload } = event.payload;
      shown.push({ type, seq, turn, payload });
    } else {
      shown.push({ type, seq, turn, payload: event.payload });
    }
  }
  return shown;
}

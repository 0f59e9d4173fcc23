import type { RunUsage, ToolEndCode } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent, NewEvent } from "../../store/journal/journal.ts";
import type { Tx } from "../../store/store.ts";
import { isOneOf } from "../../store/tx/tx.ts";
import { runEvent } from "../run/event.ts";
import type { AssistantPart, Message, ToolMessage, ToolStatus } from "../engine.ts";

/** The part of an event that recovery uses. */
export type RunRecord = Pick<JournalEvent, "type" | "data">;

/** The answer of a call whose process ended in the middle of it. */
const UNKNOWN_OUTCOME =
  "The server process ended while this call was running. Whether it took effect is unknown: check before you repeat it.";

/**
 * Rebuilds the messages of the step that a dead process left, from the journal: the text so far, and each tool call with
 * its answer or a note that it was interrupted. So the model knows which tools have begun and does not repeat them
 * blindly. `events` are those after the last saved step.
 */
export function rebuildStep(events: readonly RunRecord[]): readonly Message[] {
  const step = new Step();
  for (const event of events) step.take(event);
  return step.messages();
}

/** An unfinished step, as the next process finds it. */
export interface BrokenStep {
  /** Steering, and what the assistant said and called. */
  readonly messages: readonly Message[];
  /** Answers of the calls that ended. */
  readonly answers: readonly ToolMessage[];
  /** The other calls, with their arguments as they were journaled: redacted. */
  readonly unfinished: readonly { readonly callId: string; readonly tool: string; readonly input: unknown }[];
  /** Ids of the approvals that were asked for in it. */
  readonly asked: ReadonlySet<string>;
}

/** As {@link rebuildStep}, for a step that continues. */
export function brokenStep(events: readonly RunRecord[]): BrokenStep {
  const step = new Step();
  for (const event of events) step.take(event);
  const asked = events.filter(({ type }) => type === "approval.request");
  return { ...step.broken(), asked: new Set(asked.map(({ data }) => String(data["request_id"]))) };
}

/** Returns the end events of the calls that were running when the process died. */
export function cutCalls(runId: string, events: readonly RunRecord[]): readonly NewEvent[] {
  return brokenStep(events).unfinished.map(({ callId, tool }) =>
    runEvent(runId, "tool.completed", {
      tool_call_id: callId,
      tool,
      status: "aborted",
      code: "interrupted",
      // The real duration is unknown.
      duration: 0,
      error: true,
      preview: UNKNOWN_OUTCOME,
      result: UNKNOWN_OUTCOME,
    }),
  );
}

const STEP_EVENTS = [
  "usage.updated",
  "run.steered",
  "message.delta",
  "tool.started",
  "tool.completed",
  "approval.request",
];

/** Returns the events of a run's unsaved step: the last `usage.updated`, which follows each saved step, and those after it. */
export async function unsavedEvents(tx: Tx, runId: string): Promise<readonly RunRecord[]> {
  return (await unsavedEventsOf(tx, [runId])).get(runId) ?? [];
}

/** As {@link unsavedEvents}, of several runs at once; a run without any is left out. */
export async function unsavedEventsOf(
  tx: Tx,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, readonly RunRecord[]>> {
  if (runIds.length === 0) return new Map();
  const steps = tx.db
    .selectFrom("runs")
    .select(({ selectFrom }) => [
      "id",
      selectFrom("events")
        .select("run_seq")
        .whereRef("events.run_id", "=", "runs.id")
        .where("type", "=", "usage.updated")
        .orderBy("run_seq", "desc")
        .limit(1)
        .as("saved"),
    ])
    .where(isOneOf(tx, "id", runIds))
    .as("step");
  const rows = await tx.db
    .selectFrom(steps)
    .innerJoin("events", (join) =>
      join
        .onRef("events.run_id", "=", "step.id")
        .on((is) => is("events.run_seq", ">=", is.fn.coalesce("step.saved", is.lit(0)))),
    )
    .select(["events.run_id", "events.type", "events.data"])
    .where("events.type", "in", STEP_EVENTS)
    .orderBy("events.run_id")
    .orderBy("events.run_seq")
    .execute();
  return byRun(rows);
}

/** Returns the usage that a run last reported, from its {@link unsavedEvents}. */
export function reportedUsage(events: readonly RunRecord[]): RunUsage | undefined {
  const reported = events.find(({ type }) => type === "usage.updated");
  return reported?.data["usage"] as RunUsage | undefined;
}

/**
 * Returns the runs of these sessions whose newest step is saved although no event says so: a step without tool calls,
 * usually the last of its turn, is followed by no `usage.updated`.
 */
export async function answeredRuns(tx: Tx, sessionIds: readonly string[]): Promise<ReadonlySet<string>> {
  if (sessionIds.length === 0) return new Set();
  const rows = await tx.db
    .selectFrom("sessions")
    .innerJoin("messages", (join) =>
      join
        .onRef("messages.session_id", "=", "sessions.id")
        .onRef("messages.seq", "=", "sessions.last_message"),
    )
    .select("messages.run_id")
    .where(isOneOf(tx, "sessions.id", sessionIds))
    .where("messages.role", "=", "assistant")
    .execute();
  return new Set(rows.flatMap(({ run_id: runId }) => (runId === null ? [] : [runId])));
}

/** Returns the steering events of a run above number `after`. */
export async function steerEvents(
  tx: Tx,
  runId: string,
  options?: { readonly after: number },
): Promise<readonly RunRecord[]> {
  return (await steerEventsOf(tx, [runId], options)).get(runId) ?? [];
}

/** As {@link steerEvents}, of several runs at once; a run without any is left out. */
export async function steerEventsOf(
  tx: Tx,
  runIds: readonly string[],
  { after = 0 }: { readonly after?: number } = {},
): Promise<ReadonlyMap<string, readonly RunRecord[]>> {
  if (runIds.length === 0) return new Map();
  const rows = await tx.db
    .selectFrom("events")
    .select(["run_id", "type", "data"])
    .where(isOneOf(tx, "run_id", runIds))
    .where("run_seq", ">", after)
    .where("type", "in", ["run.steer_accepted", "run.steered"])
    .orderBy("run_id")
    .orderBy("run_seq")
    .execute();
  return byRun(rows);
}

function byRun(
  rows: readonly { readonly run_id: string | null; readonly type: string; readonly data: string }[],
): ReadonlyMap<string, readonly RunRecord[]> {
  const all = new Map<string, RunRecord[]>();
  for (const { run_id: runId, ...row } of rows) {
    if (runId === null) continue;
    const records = all.get(runId);
    if (records) records.push(toRecord(row));
    else all.set(runId, [toRecord(row)]);
  }
  return all;
}

function toRecord({ type, data }: { readonly type: string; readonly data: string }): RunRecord {
  return { type, data: JSON.parse(data) as RunRecord["data"] };
}

/** Returns the steering that was accepted but never reached the model. */
export function pendingSteers(events: readonly RunRecord[]): readonly string[] {
  const taken = new Set(
    events.filter(({ type }) => type === "run.steered").map(({ data }) => data["steer_id"]),
  );
  return events
    .filter(({ type, data }) => type === "run.steer_accepted" && !taken.has(data["steer_id"]))
    .map(({ data }) => String(data["text"]));
}

class Step {
  readonly #parts: AssistantPart[] = [];
  readonly #answers = new Map<string, ToolMessage>();
  /** Ids of the calls that ended. */
  readonly #ended = new Set<string>();
  readonly #steers: Message[] = [];

  take({ type, data }: RunRecord): void {
    switch (type) {
      case "run.steered":
        this.#steers.push({ role: "user", text: String(data["text"]), origin: "steer" });
        return;
      case "message.delta":
        return this.#say(String(data["delta"]), String(data["message_id"]));
      case "tool.started":
        return this.#call(data);
      case "tool.completed":
        return this.#answer(data);
      default:
        return;
    }
  }

  messages(): readonly Message[] {
    if (this.#parts.length === 0) return this.#steers;
    return [
      ...this.#steers,
      { role: "assistant", parts: this.#parts, interrupted: true },
      ...this.#answers.values(),
    ];
  }

  broken(): Omit<BrokenStep, "asked"> {
    const assistant = { role: "assistant" as const, parts: this.#parts };
    const calls = this.#parts.flatMap((part) => (part.type === "tool_call" ? [part] : []));
    return {
      messages: this.#parts.length === 0 ? this.#steers : [...this.#steers, assistant],
      answers: [...this.#answers.values()].filter(({ callId }) => this.#ended.has(callId)),
      unfinished: calls.filter(({ callId }) => !this.#ended.has(callId)),
    };
  }

  #say(text: string, id: string): void {
    if (text === "") return;
    const last = this.#parts.at(-1);
    if (last?.type === "text" && last.id === id) {
      this.#parts[this.#parts.length - 1] = { ...last, text: last.text + text };
    } else this.#parts.push({ type: "text", text, id });
  }

  #call(data: RunRecord["data"]): void {
    const callId = String(data["tool_call_id"]);
    const tool = String(data["tool"]);
    this.#parts.push({ type: "tool_call", callId, tool, input: data["arguments"] ?? {} });
    const cut = { status: "aborted", code: "interrupted", text: UNKNOWN_OUTCOME } as const;
    this.#answers.set(callId, { role: "tool", callId, tool, ...cut });
  }

  #answer(data: RunRecord["data"]): void {
    const callId = String(data["tool_call_id"]);
    const known = this.#answers.get(callId);
    if (!known) return;
    this.#ended.add(callId);
    const { role, tool } = known;
    const { code, reason, duration, result = "" } = data;
    this.#answers.set(callId, {
      role,
      callId,
      tool,
      status: data["status"] as ToolStatus,
      text: String(result),
      ...(code === undefined ? {} : { code: code as ToolEndCode }),
      ...(reason === undefined ? {} : { reason: String(reason) }),
      ...(duration === undefined ? {} : { durationMs: Number(duration) * 1000 }),
    });
  }
}

/** Runs one turn of an engine with recording ports, and checks the rules of every turn. */
import assert from "node:assert/strict";
import type {
  Engine,
  EngineEvent,
  EngineTurn,
  ToolAnswer,
  ToolCall,
  ToolSpec,
  TurnEnd,
  TurnPorts,
  Message,
} from "../../../../src/agent/engine.ts";
import type { Usage } from "../../../../src/agent/usage/usage.ts";

export interface ProbeOptions {
  readonly turn?: Partial<Omit<EngineTurn, "ports">>;
  readonly callTool?: (call: ToolCall) => ToolAnswer | Promise<ToolAnswer>;
  /** What `takeSteers` returns at its first, second ... call. */
  readonly steers?: readonly (readonly string[])[];
  readonly admit?: TurnPorts["admit"];
  readonly compact?: TurnPorts["compact"];
  readonly drain?: TurnPorts["drain"];
  readonly onSteer?: () => void;
  /** Receives each step before it counts as saved; may throw. */
  readonly onSave?: () => void;
  /** Receives each event as it is emitted. */
  readonly onEvent?: (event: EngineEvent, count: number) => void;
}

export interface Outcome {
  readonly end: TurnEnd;
  readonly events: readonly EngineEvent[];
  readonly steps: readonly { readonly messages: readonly Message[]; readonly usage: Usage }[];
  readonly saved: readonly Message[];
  readonly calls: readonly ToolCall[];
}

export const weatherTool: ToolSpec = {
  name: "weather",
  description: "The weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};

/** Runs a turn to its end and checks {@link assertWhole}. The default prompt is `hi`, the default tool `weather`. */
export async function probe(engine: Engine, options: ProbeOptions = {}): Promise<Outcome> {
  const events: EngineEvent[] = [];
  const steps: { messages: readonly Message[]; usage: Usage }[] = [];
  const calls: ToolCall[] = [];
  let taken = 0;
  const turn: EngineTurn = {
    runId: "run_test",
    model: { provider: "local", id: "test-model" },
    instructions: "Be brief.",
    messages: [{ role: "user", text: "hi" }],
    tools: [weatherTool],
    settings: {},
    maxSteps: 8,
    signal: new AbortController().signal,
    ...options.turn,
    ports: {
      emit: (event) => {
        events.push(event);
        options.onEvent?.(event, events.length);
      },
      callTool: async (call) => {
        calls.push(call);
        return (await options.callTool?.(call)) ?? { status: "ok", text: `answer to ${call.tool}` };
      },
      takeSteers: () => {
        options.onSteer?.();
        return options.steers?.[taken++] ?? [];
      },
      saveStep: (step) => {
        options.onSave?.();
        steps.push(step);
      },
      ...(options.admit ? { admit: options.admit } : {}),
      ...(options.compact ? { compact: options.compact } : {}),
      ...(options.drain ? { drain: options.drain } : {}),
    },
  };
  const end = await engine.runTurn(turn);
  const outcome = { end, events, steps, saved: steps.flatMap(({ messages }) => messages), calls };
  assertWhole(outcome);
  return outcome;
}

/** The rules of the port for every turn, however it ended. */
export function assertWhole({ end, events, steps, calls }: Outcome): void {
  assertPaired(events);
  for (const { messages } of steps) assertAnswered(messages);
  const saved = steps.flatMap(({ messages }) => messages);
  assert.deepEqual(JSON.parse(JSON.stringify(saved)), saved, "a transcript is JSON");
  const asked = saved.flatMap((message) => (message.role === "assistant" ? message.parts : []));
  const askedIds = asked.flatMap((part) => (part.type === "tool_call" ? [part.callId] : []));
  const calledIds = calls.map(({ callId }) => callId);
  assert.equal(new Set(calledIds).size, calledIds.length, "no call is made twice");
  assert.deepEqual(
    calledIds.filter((id) => !askedIds.includes(id)),
    [],
    "each call that was made is in the transcript",
  );
  if (end.stop !== "aborted" && end.stop !== "error") assert.deepEqual(calledIds, askedIds);
  assert.equal(
    end.stop === "error",
    end.error !== undefined,
    "an error comes with stop error, and only then",
  );
}

/** Messages do not nest, deltas carry their message's id, and the end repeats the deltas. */
function assertPaired(events: readonly EngineEvent[]): void {
  let open: { id: string; text: string } | undefined;
  let reasoning = "";
  for (const event of events) {
    if (event.type === "message.start") {
      assert.equal(open, undefined, "a message starts inside another");
      open = { id: event.messageId, text: "" };
    }
    if (event.type === "message.delta") {
      assert.equal(open?.id, event.messageId, "a delta outside its message");
      open!.text += event.text;
    }
    if (event.type === "message.end") {
      assert.equal(open?.id, event.messageId, "an end without its start");
      assert.equal(event.text, open?.text, "the end says what the deltas said");
      open = undefined;
    }
    if (event.type === "reasoning.delta") reasoning += event.text;
    if (event.type === "reasoning.end") {
      assert.equal(event.text, reasoning, "the end of reasoning says what its deltas said");
      reasoning = "";
    }
  }
  assert.equal(open, undefined, "a message was never ended");
  assert.equal(reasoning, "", "reasoning was never ended");
}

/** Within one saved step, each tool call has exactly one answer after it, and each answer its call. */
function assertAnswered(messages: readonly Message[]): void {
  assert.ok(messages.length > 0, "an empty step was saved");
  const open = new Map<string, string>();
  for (const message of messages) {
    if (message.role === "tool") {
      assert.equal(open.get(message.callId), message.tool, "an answer without its call");
      open.delete(message.callId);
    }
    if (message.role !== "assistant") continue;
    assert.ok(message.parts.length > 0, "an empty assistant message was saved");
    for (const part of message.parts) if (part.type === "tool_call") open.set(part.callId, part.tool);
  }
  assert.deepEqual([...open.keys()], [], "calls without answers were saved");
}

/** Event types and texts without ids, which must agree between engines. */
export function traceOf(events: readonly EngineEvent[]): readonly string[] {
  return events.flatMap((event) => {
    // Only a model that streams reports the calls that it writes.
    if (event.type === "tool.generating") return [];
    return [event.type === "message.start" ? event.type : `${event.type} ${event.text}`];
  });
}

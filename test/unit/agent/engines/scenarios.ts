/** The suite that both the model engine and the scripted engine must pass. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine, AssistantPart, Message } from "../../../../src/agent/engine.ts";
import { unmadeCalls } from "./call-scenarios.ts";
import { budgets, compaction } from "./context-scenarios.ts";
import { probe, traceOf, type Outcome, type ProbeOptions } from "./turn-probe.ts";

/** One model call, as the model makes it. */
export interface ModelMove {
  readonly reasoning?: string;
  readonly text?: readonly string[];
  readonly calls?: readonly {
    readonly tool: string;
    readonly input: unknown;
    /** For models without a schema check: what is wrong with `input`. */
    readonly invalid?: string;
  }[];
  readonly finish?: "length" | "refusal";
  /** After its texts the model sends nothing until the turn is stopped. */
  readonly hang?: true;
  /** The provider refuses. */
  readonly fail?: true;
  /** The provider refuses because the context is too long. */
  readonly overflow?: true;
}

/** An engine whose model makes these moves in turn, and its resources. */
export type EngineFactory = (
  moves: readonly ModelMove[],
) => Promise<{ readonly engine: Engine; readonly close: () => Promise<void> }>;

const paris = { tool: "weather", input: { city: "Paris" } };
const rome = { tool: "weather", input: { city: "Rome" } };

/** Registers the suite for one engine. */
export function engineScenarios(name: string, create: EngineFactory): void {
  const run = async (moves: readonly ModelMove[], options?: ProbeOptions): Promise<Outcome> => {
    const { engine, close } = await create(moves);
    try {
      return await probe(engine, options);
    } finally {
      await close();
    }
  };
  const says = (title: string, body: () => Promise<void>) => test(`${name}: ${title}`, body);
  speaking(says, run);
  toolCalls(says, run);
  limits(says, run);
  stopping(says, run);
  budgets(says, run);
  unmadeCalls(says, run);
  compaction(says, run);
  properties(says, run);
}

export type Says = (title: string, body: () => Promise<void>) => unknown;
export type Run = (moves: readonly ModelMove[], options?: ProbeOptions) => Promise<Outcome>;

function speaking(says: Says, run: Run): void {
  says("a plain answer is one message, saved as it was said", async () => {
    const { end, events, saved } = await run([{ text: ["Hel", "lo"] }]);
    assert.equal(end.stop, "end");
    assert.equal(end.text, "Hello");
    assert.equal(end.usage.modelCalls, 1);
    assert.equal(end.usage.toolCalls, 0);
    assert.deepEqual(traceOf(events), [
      "message.start",
      "message.delta Hel",
      "message.delta lo",
      "message.end Hello",
    ]);
    assert.deepEqual(saved.map(oursOnly), [{ role: "assistant", parts: [{ type: "text", text: "Hello" }] }]);
  });

  says("reasoning is told apart from text and comes before it", async () => {
    const { end, events, saved } = await run([{ reasoning: "hm", text: ["Yes"] }]);
    assert.equal(end.text, "Yes", "reasoning is not part of the answer");
    assert.deepEqual(traceOf(events), [
      "reasoning.delta hm",
      "reasoning.end hm",
      "message.start",
      "message.delta Yes",
      "message.end Yes",
    ]);
    assert.deepEqual(partsOf(saved).map(ourPart), [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "Yes" },
    ]);
  });

  says("no more of an answer is read while what was emitted of it waits to be stored", async () => {
    let [waits, isWaiting, early] = [0, false, 0];
    const { end } = await run([{ text: ["Hel", "lo"] }], {
      onEvent: () => void (early += isWaiting ? 1 : 0),
      drain: () => {
        waits += 1;
        if (waits > 1) return undefined;
        isWaiting = true;
        return turns(20).then(() => void (isWaiting = false));
      },
    });
    assert.deepEqual([end.text, early], ["Hello", 0]);
    assert.ok(waits > 0, "the engine never asked");
  });

  says("a model that says nothing ends its turn without a message", async () => {
    const { end, events, steps } = await run([{}]);
    assert.equal(end.stop, "end");
    assert.equal(end.text, "");
    assert.deepEqual(events, []);
    assert.deepEqual(steps, []);
  });

  says("text steered in before the first call reaches the model as a user message", async () => {
    const { saved } = await run([{ text: ["ok"] }], { steers: [["and be quick", "please"]] });
    assert.deepEqual(saved.slice(0, 2), [
      { role: "user", text: "and be quick" },
      { role: "user", text: "please" },
    ]);
  });

  says("text steered in while a tool runs is taken before the next call", async () => {
    const { saved, end } = await run([{ calls: [paris] }, { text: ["done"] }], {
      steers: [[], ["in Celsius"]],
    });
    assert.deepEqual(saved.map(gist), ["weather?", "ok", "user: in Celsius", "assistant: done"]);
    assert.equal(end.text, "done");
  });

  says("text steered in during the last answer makes the turn go on", async () => {
    const { saved, end } = await run([{ text: ["one"] }, { text: ["two"] }], { steers: [[], ["more"]] });
    assert.deepEqual(saved.map(gist), ["assistant: one", "user: more", "assistant: two"]);
    assert.equal(end.usage.modelCalls, 2);
    assert.equal(end.text, "two");
  });
}

function toolCalls(says: Says, run: Run): void {
  says("a tool's answer goes back to the model, in one saved step with its call", async () => {
    const { end, steps, calls } = await run([{ text: ["Let me see"], calls: [paris] }, { text: ["Sunny"] }]);
    assert.deepEqual(
      calls.map(({ tool, input, invalid }) => ({ tool, input, invalid })),
      [{ ...paris, invalid: undefined }],
    );
    assert.deepEqual(
      steps.map(({ messages }) => messages.map(({ role }) => role)),
      [["assistant", "tool"], ["assistant"]],
    );
    assert.equal(end.text, "Sunny");
    assert.equal(end.usage.toolCalls, 1);
    assert.equal(end.usage.modelCalls, 2);
  });

  says("two calls of one step run side by side and are answered in the model's order", async () => {
    const second = Promise.withResolvers<void>();
    const { saved, calls } = await run([{ calls: [paris, rome] }, { text: ["both"] }], {
      // The first call waits for the second to start: sequential calls would never end.
      callTool: async ({ input }) => {
        const { city } = input as { city: string };
        if (city === "Rome") second.resolve();
        await second.promise;
        return { status: "ok", text: city };
      },
    });
    assert.equal(calls.length, 2);
    const texts = saved.flatMap((message) => (message.role === "tool" ? [message.text] : []));
    assert.deepEqual(texts, ["Paris", "Rome"]);
  });

  says("an unknown tool is handed over all the same", async () => {
    const { end, calls, saved } = await run(
      [
        { calls: [{ tool: "teleport", input: { to: "Mars" }, invalid: "no such tool" }] },
        { text: ["sorry"] },
      ],
      { callTool: () => ({ status: "error", text: "There is no tool named teleport." }) },
    );
    assert.equal(calls[0]?.tool, "teleport");
    assert.deepEqual(calls[0]?.input, { to: "Mars" });
    assert.deepEqual(saved.map(gist), ["teleport?", "error", "assistant: sorry"]);
    assert.equal(end.stop, "end");
  });

  says("arguments that do not fit the schema are handed over with what is wrong", async () => {
    const invalid = "The arguments of weather are not valid: city must be a string.";
    const { end, calls, saved } = await run(
      [{ calls: [{ tool: "weather", input: { city: 5 }, invalid }] }, { text: ["mended"] }],
      { callTool: ({ invalid: text }) => ({ status: "error", text: text ?? "" }) },
    );
    assert.match(calls[0]?.invalid ?? "", /city/);
    assert.deepEqual(calls[0]?.input, { city: 5 });
    assert.deepEqual(saved.map(gist), ["weather?", "error", "assistant: mended"]);
    assert.equal(end.stop, "end");
  });

  says("a call whose answer ends the turn is the last of it, and the model is not called again", async () => {
    const { end, saved } = await run([{ calls: [paris, rome] }, { text: ["never"] }], {
      callTool: ({ input }) => ({
        status: "ok",
        text: "asked",
        ...((input as { city: string }).city === "Paris" ? { endsTurn: true } : {}),
      }),
    });
    assert.equal(end.stop, "end");
    assert.equal(end.usage.modelCalls, 1);
    assert.deepEqual(saved.map(gist), ["weather? weather?", "ok", "ok"]);
    assert.ok(
      saved.every((message) => !("endsTurn" in message)),
      "the transcript keeps only the answers",
    );
  });

  for (const status of ["error", "denied"] as const) {
    says(`a tool call that ends ${status} is told to the model, and the turn goes on`, async () => {
      const { end, saved } = await run([{ calls: [paris] }, { text: ["I see"] }], {
        callTool: () => ({ status, text: "no" }),
      });
      assert.deepEqual(saved.map(gist), ["weather?", status, "assistant: I see"]);
      assert.equal(end.stop, "end");
    });
  }
}

function limits(says: Says, run: Run): void {
  says("the turn ends at its last step, with the calls of that step answered", async () => {
    const { end, saved } = await run([{ calls: [paris] }, { calls: [rome] }, { text: ["never"] }], {
      turn: { maxSteps: 2 },
    });
    assert.equal(end.stop, "max_steps");
    assert.equal(end.usage.modelCalls, 2);
    assert.deepEqual(saved.map(gist), ["weather?", "ok", "weather?", "ok"]);
  });

  for (const finish of ["length", "refusal"] as const) {
    says(`an answer that stops by ${finish} ends the turn so, with its text`, async () => {
      const { end, saved } = await run([{ text: ["half a"], finish }, { text: ["never"] }]);
      assert.equal(end.stop, finish);
      assert.equal(end.text, "half a");
      assert.deepEqual(saved.map(gist), ["assistant: half a"]);
      assert.equal(end.usage.modelCalls, 1);
    });
  }

  says("a provider that refuses ends the turn with an error, never with a throw", async () => {
    const { end, steps } = await run([{ fail: true }]);
    assert.equal(end.stop, "error");
    assert.equal(end.error?.code, "provider_error");
    assert.deepEqual(steps, []);
  });

  says("a provider that refuses after a step leaves that step saved", async () => {
    const { end, saved } = await run([{ text: ["look"], calls: [paris] }, { fail: true }]);
    assert.equal(end.stop, "error");
    assert.equal(end.text, "look");
    assert.deepEqual(saved.map(gist), ["assistant: look weather?", "ok"]);
  });
}

function stopping(says: Says, run: Run): void {
  says("stopping in the middle of a text saves what was said, marked as interrupted", async () => {
    const stop = new AbortController();
    const { end, saved } = await run([{ text: ["partial"], hang: true }], {
      turn: { signal: stop.signal },
      onEvent: (event) => event.type === "message.delta" && stop.abort(),
    });
    assert.equal(end.stop, "aborted");
    assert.equal(end.text, "partial");
    assert.deepEqual(saved.map(oursOnly), [
      { role: "assistant", parts: [{ type: "text", text: "partial" }], interrupted: true },
    ]);
  });

  says("stopping keeps the reasoning that was told, too", async () => {
    const stop = new AbortController();
    const { saved } = await run([{ reasoning: "hm", text: ["partial"], hang: true }], {
      turn: { signal: stop.signal },
      onEvent: (event) => event.type === "message.delta" && stop.abort(),
    });
    assert.deepEqual(partsOf(saved).map(ourPart), [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "partial" },
    ]);
  });

  says("stopping before the first word saves nothing", async () => {
    const { end, steps, events } = await run([{ text: ["never"] }], {
      turn: { signal: AbortSignal.abort() },
    });
    assert.equal(end.stop, "aborted");
    assert.deepEqual(steps, []);
    assert.deepEqual(events, []);
  });

  says("stopping while tools run waits for their answers and asks no model again", async () => {
    const stop = new AbortController();
    const { end, saved, calls } = await run([{ calls: [paris, rome] }, { text: ["never"] }], {
      turn: { signal: stop.signal },
      callTool: async ({ input }) => {
        if ((input as { city: string }).city === "Paris") stop.abort();
        return { status: "aborted", text: "stopped" };
      },
    });
    assert.equal(end.stop, "aborted");
    assert.equal(end.usage.modelCalls, 1);
    assert.ok(calls.length >= 1);
    assert.deepEqual(saved.map(gist), ["weather? weather?", "aborted", "aborted"]);
  });
}

/** A turn whose moves a seed decides: every engine makes the same turn from the same seed. */
export function randomMoves(seed: number): readonly ModelMove[] {
  const random = randomFrom(seed);
  const pick = (below: number) => Math.floor(random() * below);
  const moves = Array.from({ length: 1 + pick(4) }, (): ModelMove => {
    const text = Array.from({ length: pick(4) }, (_, index) => `t${pick(100)}.${index} `);
    const calls = Array.from({ length: 1 + pick(3) }, (_, index) => ({
      tool: pick(5) === 0 ? "teleport" : "weather",
      input: { city: `c${index}` },
    }));
    return { ...(pick(3) === 0 ? { reasoning: `r${pick(100)}` } : {}), text, calls };
  });
  return [...moves, { text: ["the ", "end"] }];
}

function properties(says: Says, run: Run): void {
  says("any turn is paired, ordered and complete, and says what its moves say", async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const moves = randomMoves(seed);
      const { end, events, saved } = await run(moves);
      assert.equal(end.stop, "end", `seed ${seed}`);
      assert.deepEqual(traceOf(events), moves.flatMap(expectedTrace), `seed ${seed}`);
      assert.equal(end.usage.modelCalls, moves.length);
      const calls = moves.flatMap(({ calls: made = [] }) => made.map(({ tool }) => tool));
      const asked = partsOf(saved).flatMap((part) => (part.type === "tool_call" ? [part.tool] : []));
      assert.deepEqual(asked, calls, `seed ${seed}`);
      assert.equal(end.usage.toolCalls, calls.length);
    }
  });

  says("a turn that is stopped at any event still ends whole", async () => {
    const moves = randomMoves(3);
    const total = moves.flatMap(expectedTrace).length;
    for (let at = 1; at < total; at += 2) {
      const stop = new AbortController();
      const { end, events, saved } = await run(moves, {
        turn: { signal: stop.signal },
        onEvent: (_, count) => count === at && stop.abort(),
        callTool: () => ({ status: stop.signal.aborted ? "aborted" : "ok", text: "" }),
      });
      assert.equal(end.stop, "aborted", `stopped at event ${at}`);
      const said = events.flatMap((event) => (event.type === "message.end" ? [event.text] : []));
      const kept = partsOf(saved).flatMap((part) => (part.type === "text" ? [part.text] : []));
      assert.deepEqual(
        kept,
        said.filter((text) => text !== ""),
        `stopped at event ${at}`,
      );
    }
  });
}

function expectedTrace({ reasoning, text = [] }: ModelMove): readonly string[] {
  const thought =
    reasoning === undefined ? [] : [`reasoning.delta ${reasoning}`, `reasoning.end ${reasoning}`];
  if (text.length === 0) return thought;
  const deltas = text.map((delta) => `message.delta ${delta}`);
  return [...thought, "message.start", ...deltas, `message.end ${text.join("")}`];
}

/** mulberry32: the same numbers on every machine. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function partsOf(messages: readonly Message[]): readonly AssistantPart[] {
  return messages.flatMap((message) => (message.role === "assistant" ? message.parts : []));
}

/** One word per message: its author, the called tool, its status. */
export function gist(message: Message): string {
  if (message.role === "tool") return message.status;
  if (message.role !== "assistant") return `${message.role}: ${message.text}`;
  const text = message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  const calls = message.parts.flatMap((part) => (part.type === "tool_call" ? [`${part.tool}?`] : []));
  return [...(text === "" ? [] : [`assistant: ${text}`]), ...calls].join(" ");
}

function oursOnly(message: Message) {
  return message.role === "assistant" ? { ...message, parts: message.parts.map(ourPart) } : message;
}

/** Removes providers' own data and ids, which differ each time. */
function ourPart({ provider: _, ...part }: AssistantPart) {
  const { id: __, ...rest } = { id: undefined, ...part };
  return rest;
}

/** Lets everything else run that many times. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** A scripted agent from a YAML file: what it answers, which tools it calls, and how it fails. */
import { setTimeout as sleep } from "node:timers/promises";
import { defineTool, ToolError, type Tool } from "../../agent/tool/tool.ts";
import type { TurnEnd } from "../../agent/engine.ts";
import type { Script, ScriptState, ScriptStep } from "../../agent/engines/scripted.ts";
import { checkOnce, formatIssue, type JsonSchema } from "../../base/schema.ts";
import { ServiceError } from "../../base/errors.ts";
import { parseConfig, toPlain } from "../../config/file.ts";

/** The content of a script file. */
export interface MockScript {
  readonly answers: readonly MockAnswer[];
  readonly tools?: readonly MockTool[];
}

interface MockAnswer {
  /** Text that the prompt contains, or a regular expression between slashes. Absent: any prompt. */
  readonly prompt?: string;
  /** How many prompts it answers. Absent: every matching one. */
  readonly times?: number;
  /** One per model call of the turn. */
  readonly steps: readonly MockStep[];
}

interface MockStep {
  readonly reasoning?: string;
  readonly text?: string;
  readonly characters_per_delta?: number;
  readonly delay_ms?: number;
  readonly calls?: readonly { readonly tool: string; readonly input?: Readonly<Record<string, unknown>> }[];
  readonly stop?: "length" | "refusal";
  readonly error?: {
    readonly code: NonNullable<TurnEnd["error"]>["code"];
    readonly message: string;
    readonly retry_after_seconds?: number;
  };
  /** Every client connection is cut in the middle of the text; the run continues. */
  readonly cut?: boolean;
}

interface MockTool {
  readonly name: string;
  readonly description?: string;
  readonly parameters?: JsonSchema;
  readonly answer?: string;
  /** The tool fails with this text. */
  readonly error?: string;
  /** The question that people must approve before each call. Absent: no approval is needed. */
  readonly approval?: string;
  readonly delay_ms?: number;
}

const MAX_ENTRIES = 1_000;
const MAX_TEXT = 1_000_000;
const MAX_DELAY_MS = 60_000;
const DEFAULT_CHARACTERS = 16;

const text = (maxLength = MAX_TEXT) => ({ type: "string", maxLength });
const name = { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$" };
const delay = { type: "integer", minimum: 0, maximum: MAX_DELAY_MS };
const closed = (properties: JsonSchema, required: readonly string[] = []) => ({
  type: "object",
  additionalProperties: false,
  required,
  properties,
});
const listOf = (items: JsonSchema) => ({ type: "array", maxItems: MAX_ENTRIES, items });

const stepSchema = closed({
  reasoning: text(),
  text: text(),
  characters_per_delta: { type: "integer", minimum: 1, maximum: MAX_TEXT },
  delay_ms: delay,
  calls: listOf(closed({ tool: name, input: { type: "object" } }, ["tool"])),
  stop: { enum: ["length", "refusal"] },
  error: closed(
    {
      code: {
        enum: [
          "provider_error",
          "agent_timeout",
          "agent_incomplete",
          "model_not_found",
          "budget_exceeded",
          "context_too_long",
          "internal_error",
        ],
      },
      message: text(2_000),
      retry_after_seconds: { type: "integer", minimum: 0, maximum: 86_400 },
    },
    ["code", "message"],
  ),
  cut: { type: "boolean" },
});

const fileSchema = closed(
  {
    answers: {
      ...listOf(
        closed({ prompt: text(2_000), times: { type: "integer", minimum: 1 }, steps: listOf(stepSchema) }, [
          "steps",
        ]),
      ),
      minItems: 1,
    },
    tools: listOf(
      closed(
        {
          name,
          description: text(10_000),
          parameters: { type: "object" },
          answer: text(),
          error: text(10_000),
          approval: { type: "string", minLength: 1, maxLength: 500 },
          delay_ms: delay,
        },
        ["name"],
      ),
    ),
  },
  ["answers"],
);

/** Reads a script. ServiceError `invalid_config` that names the field. `source` names the file in errors. */
export function parseMockScript(yaml: string, source: string): MockScript {
  const document = parseConfig(yaml);
  const [broken] = document.issues.filter(({ severity }) => severity === "error");
  if (broken) throw invalid(source, `line ${broken.line} ${broken.message}`);
  const plain = toPlain(document);
  if ("issue" in plain) throw invalid(source, `line ${plain.issue.line} ${plain.issue.message}`);
  const [issue] = checkOnce(fileSchema, plain.value) ?? [];
  if (issue) throw invalid(source, formatIssue(issue, "the file"));
  const script = plain.value as MockScript;
  for (const { prompt } of script.answers) matcherOf(prompt, source);
  return script;
}

/**
 * Returns the script of the agent. The first answer whose prompt matches and that is not used up answers a turn.
 * `cutConnections` is called where a step says so.
 */
export function toScript({ answers }: MockScript, cutConnections: () => void): Script {
  const entries = answers.map((answer) => ({
    matches: matcherOf(answer.prompt, "the script"),
    left: answer.times ?? Number.POSITIVE_INFINITY,
    steps: answer.steps,
  }));
  const chosen = new WeakMap<AbortSignal, readonly MockStep[]>();
  const choose = ({ user, signal }: ScriptState): readonly MockStep[] => {
    const entry = entries.find(({ matches, left }) => left > 0 && matches(user));
    if (entry) entry.left -= 1;
    const steps = entry?.steps ?? [
      { text: `No answer of the script matches this prompt: ${user.slice(0, 200)}` },
    ];
    chosen.set(signal, steps);
    return steps;
  };
  return (state) => {
    const steps = chosen.get(state.signal) ?? choose(state);
    const step = steps[state.step];
    return step === undefined ? {} : toStep(step, cutConnections);
  };
}

/** Returns whether a step of the script cuts connections. */
export function cutsConnections({ answers }: MockScript): boolean {
  return answers.some(({ steps }) => steps.some(({ cut = false }) => cut));
}

/** Returns the tools of the script. */
export function toTools({ tools = [] }: MockScript): readonly Tool[] {
  return tools.map((tool) =>
    defineTool<Readonly<Record<string, unknown>>>({
      name: tool.name,
      toolset: MOCK_TOOLSET,
      description: tool.description ?? `The scripted tool ${tool.name}.`,
      parameters: tool.parameters ?? { type: "object" },
      inspect: () => ({
        kind: "tool",
        title: tool.approval ?? `Call ${tool.name}`,
        effect: tool.approval === undefined ? "none" : "unknown",
      }),
      run: async (_input, { signal }) => {
        if (tool.delay_ms) await sleep(tool.delay_ms, undefined, { signal });
        if (tool.error !== undefined) throw new ToolError(tool.error);
        return tool.answer ?? "";
      },
    }),
  );
}

/** The toolset of the scripted tools. */
const MOCK_TOOLSET = "mock";

function toStep(step: MockStep, cutConnections: () => void): ScriptStep {
  const { reasoning, text: words, calls, stop, error } = step;
  return {
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(words === undefined ? {} : { text: deltasOf(step, cutConnections) }),
    ...(step.delay_ms === undefined ? {} : { delayMs: step.delay_ms }),
    ...(calls === undefined ? {} : { calls: calls.map(({ tool, input = {} }) => ({ tool, input })) }),
    ...(stop === undefined ? {} : { stop }),
    ...(error === undefined ? {} : { error: toError(error) }),
  };
}

function toError({ code, message, retry_after_seconds: retry }: NonNullable<MockStep["error"]>) {
  return { code, message, ...(retry === undefined ? {} : { retryAfterSeconds: retry }) };
}

async function* deltasOf(step: MockStep, cutConnections: () => void): AsyncGenerator<string> {
  const { text: words = "", characters_per_delta: size = DEFAULT_CHARACTERS } = step;
  const half = Math.ceil(words.length / 2);
  yield* pieces(step.cut ? words.slice(0, half) : words, size);
  if (!step.cut) return;
  // What was said so far has to leave before the connections end.
  await sleep(SEND_MS);
  cutConnections();
  yield* pieces(words.slice(half), size);
}

function* pieces(words: string, size: number): Generator<string> {
  for (let start = 0; start < words.length; start += size) yield words.slice(start, start + size);
}

const SEND_MS = 100;

function matcherOf(prompt: string | undefined, source: string): (user: string) => boolean {
  if (prompt === undefined) return () => true;
  const pattern = /^\/(.+)\/([a-z]*)$/s.exec(prompt);
  if (!pattern) return (user) => user.toLowerCase().includes(prompt.toLowerCase());
  try {
    const [, body = "", flags = ""] = pattern;
    const expression = new RegExp(body, flags.replaceAll(/[gy]/g, ""));
    return (user) => expression.test(user);
  } catch (error) {
    throw invalid(source, `prompt ${prompt} is not a regular expression: ${(error as Error).message}`);
  }
}

function invalid(source: string, problem: string): ServiceError {
  return new ServiceError(
    "invalid_config",
    `${source}: ${problem}. Run \`agentd mock --example\` for a valid script.`,
  );
}

/** A script that shows everything a script can hold. */
export const EXAMPLE_SCRIPT = `# A scripted agent. Start it with: agentd mock FILE
answers:
  # The first answer whose prompt matches is given: a part of the prompt, or a regular expression between slashes.
  - prompt: weather
    steps:
      # One step is one call of the model. The tools of a step run before the next step.
      - reasoning: The user wants a forecast.
        text: Let me look.
        calls:
          - tool: forecast
            input: { city: Bern }
      - text: It will be sunny in Bern, with 22 degrees.
        characters_per_delta: 8
        delay_ms: 20
  - prompt: which colour
    steps:
      # People are asked, and the turn waits for their answer.
      - calls:
          - tool: clarify
            input: { questions: [{ question: Which colour?, choices: [red, blue] }] }
      - text: Thank you.
  - prompt: busy
    # It answers one prompt; the next one gets the answer below.
    times: 1
    steps:
      - error: { code: provider_error, message: The provider is busy., retry_after_seconds: 1 }
  - prompt: cut
    steps:
      # All connections are cut in the middle; the run continues, and a client that resumes gets the rest.
      - text: The line breaks here, and the rest follows.
        cut: true
  - steps:
      - text: This is a scripted answer.
tools:
  - name: forecast
    description: Returns the weather forecast of a city.
    parameters: { type: object, properties: { city: { type: string } } }
    # Each call needs approval. Without this line it runs at once.
    approval: Ask the weather service
    answer: Sunny, 22 degrees.
`;

import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import { headOf } from "../../base/text.ts";
import type { Engine, ToolSpec } from "../engine.ts";
import { DEMO_MODEL } from "../model.ts";
import type { ProviderConfig } from "./providers.ts";
import { createScriptedEngine, type Script, type ScriptState, type ScriptStep } from "./scripted.ts";

/**
 * Creates the engine that runs each turn on its model's engine: the scripted engine for the demo model, the model
 * engine for all others. The model engine is loaded with the first turn that needs it.
 */
export function createEngine(options: {
  readonly providers: readonly ProviderConfig[];
  readonly checkInput: (tool: ToolSpec, input: unknown) => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxAnswerBytes?: number;
}): Engine {
  const demo = createScriptedEngine(demoScript, options);
  let model: Promise<Engine> | undefined;
  const load = () =>
    (model ??= import("./model-engine.ts").then((module) => module.createModelEngine(options)));
  return {
    name: "agent",
    runTurn: async (turn) =>
      (turn.model.provider === DEMO_MODEL.provider ? demo : await load()).runTurn(turn),
  };
}

const LABEL = "[demo model]";
const MAX_QUOTED_CHARACTERS = 500;
const MAX_RESULT_CHARACTERS = 4_000;
const CHUNK_CHARACTERS = 16;

/** The lines that the demo model understands. The first match whose tool exists is called. */
const TOOL_PATTERNS: readonly {
  readonly pattern: RegExp;
  readonly tool: string;
  readonly input: (match: RegExpMatchArray) => Readonly<Record<string, string>>;
}[] = [
  {
    pattern: /^\s*run:\s*(.+)$/im,
    tool: "terminal",
    input: ([, command = ""]) => ({ command: command.trim() }),
  },
  { pattern: /^\s*read:?\s+(\S+)\s*$/im, tool: "read_file", input: ([, path = ""]) => ({ path }) },
  {
    pattern: /^\s*write:?\s+(\S+?):\s*([\s\S]*)$/im,
    tool: "write_file",
    input: ([, path = "", content = ""]) => ({ path, content }),
  },
  {
    pattern: /^\s*search:?\s+(.+)$/im,
    tool: "search_files",
    input: ([, pattern = ""]) => ({ pattern: pattern.trim() }),
  },
  { pattern: /\blist (?:the |all |my )*files\b/i, tool: "terminal", input: () => ({ command: "ls -la" }) },
];

/**
 * The built-in demo model, without key or network. Every answer says what it is. It calls tools on explicit commands,
 * so that everything around a model can be tried and tested.
 */
export const demoScript: Script = (state) => {
  if (state.toolResults.length > 0) return say(report(state));
  for (const { pattern, tool, input } of TOOL_PATTERNS) {
    const match = state.user.match(pattern);
    if (match && state.tools.includes(tool)) {
      return { ...say(`${LABEL} Calling ${tool}.`), calls: [{ tool, input: input(match) }] };
    }
  }
  return say(introduction(state.user));
};

function say(text: string): ScriptStep {
  return { text, chunkSize: CHUNK_CHARACTERS };
}

function report({ toolResults }: ScriptState): string {
  const texts = toolResults.map(({ tool, status, text }) => {
    const cut = text.length > MAX_RESULT_CHARACTERS ? `${headOf(text, MAX_RESULT_CHARACTERS)}\n(cut)` : text;
    return `${tool} answered (${status}):\n${cut}`;
  });
  return `${LABEL} ${texts.join("\n\n")}`;
}

function introduction(user: string): string {
  const task = taskIn(user);
  const quoted = task.length > MAX_QUOTED_CHARACTERS ? `${headOf(task, MAX_QUOTED_CHARACTERS)}...` : task;
  return [
    `${LABEL} No model provider is configured, so the built-in demo model answers. You said: ${JSON.stringify(quoted)}.`,
    'It can call tools: try "run: echo hello", "write notes.txt: hi", "read notes.txt" or "search hi".',
    "For a real model put a key such as OPENAI_API_KEY=... into the .env file of agentd's home, run " +
      "`agentd config set model.default openai:<model>`, and restart agentd.",
  ].join("\n");
}

/**
 * Returns a scheduled job's prompt without its preamble: the delimiters explained there would take effect in an answer.
 */
function taskIn(user: string): string {
  return user.split(/^Your task:\n\n/m).at(-1) ?? user;
}

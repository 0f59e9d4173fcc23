import { systemClock } from "../../../base/clock.ts";
import { waitAtMost } from "../../../base/deadline.ts";
import { defineTool, ToolError, type Tool, type ToolContext, type ToolIntent } from "../../tool/tool.ts";
import type { Processes, ProcessView } from "./processes.ts";
import { headOf } from "../../../base/text.ts";

interface ProcessInput {
  readonly action: "list" | "poll" | "wait" | "write" | "kill";
  readonly process_id?: string;
  readonly text?: string;
  readonly close_input?: boolean;
  readonly timeout_seconds?: number;
}

const MAX_WAIT_SECONDS = 300;
const DEFAULT_WAIT_SECONDS = 30;
const MAX_TEXT_CHARACTERS = 65_536;
/** A process that does not read blocks who writes to it. */
const WRITE_TIMEOUT_MS = 5_000;
const SHOWN_CHARACTERS = 120;

/** The tool that looks after background processes. */
export function createProcess(processes: Processes): Tool {
  return defineTool<ProcessInput>({
    name: "process",
    toolset: "terminal",
    kind: "execute",
    description:
      "Looks after processes that terminal started in the background: list them; poll one for new output; wait for its " +
      "end; write to its standard input; kill it with all it started.",
    parameters: {
      type: "object",
      additionalProperties: false,
      required: ["action"],
      properties: {
        action: { type: "string", enum: ["list", "poll", "wait", "write", "kill"] },
        process_id: {
          type: "string",
          minLength: 1,
          maxLength: 64,
          description: "All actions but list need it.",
        },
        text: {
          type: "string",
          maxLength: MAX_TEXT_CHARACTERS,
          description: "For write. End a line with a line feed.",
        },
        close_input: { type: "boolean", description: "For write: nothing follows. Default false." },
        timeout_seconds: {
          type: "number",
          exclusiveMinimum: 0,
          maximum: MAX_WAIT_SECONDS,
          description: `For wait. Default ${DEFAULT_WAIT_SECONDS}.`,
        },
      },
    },
    inspect,
    run: (input, context) => run(input, context, processes),
  });
}

/** What is typed into a process may be read by a shell, so it is judged like a command. */
function inspect({ action, process_id, text }: ProcessInput): ToolIntent {
  const about = `Process: ${action} ${process_id ?? ""}`.trim();
  if (action === "kill") return { kind: "tool", effect: "own", title: about };
  if (action !== "write" || text === undefined) return { kind: "tool", effect: "none", title: about };
  return { kind: "command", title: `${about}: ${line(text)}`, command: text };
}

async function run(input: ProcessInput, context: ToolContext, processes: Processes): Promise<string> {
  const { sessionId, signal } = context;
  if (input.action === "list") return list(processes.list({ sessionId }));
  const id = input.process_id;
  if (id === undefined)
    throw new ToolError(`${input.action} needs process_id. List the processes to see their ids.`);
  switch (input.action) {
    case "wait": {
      const timeoutMs = (input.timeout_seconds ?? DEFAULT_WAIT_SECONDS) * 1000;
      await processes.wait(id, sessionId, { timeoutMs, signal });
      return look(processes, id, sessionId);
    }
    case "write":
      await write(processes, { id, sessionId, input });
      return look(processes, id, sessionId);
    case "kill": {
      const killed = await processes.kill(id, sessionId);
      return `${killed ? "Killed." : "It had ended."}\n${look(processes, id, sessionId)}`;
    }
    case "poll":
      return look(processes, id, sessionId);
  }
}

async function write(
  processes: Processes,
  { id, sessionId, input }: { readonly id: string; readonly sessionId: string; readonly input: ProcessInput },
): Promise<void> {
  const { text = "", close_input: close = false } = input;
  if (text === "" && !close) throw new ToolError("write needs text, or close_input.");
  const written = processes.write(id, sessionId, text, { close }).then(() => true);
  if (await waitAtMost(systemClock, WRITE_TIMEOUT_MS, written)) return;
  throw new ToolError("The process does not read its input; not all of the text was taken.");
}

function look(processes: Processes, id: string, sessionId: string): string {
  const { output, view } = processes.poll(id, sessionId);
  return `${stateOf(view)}\n${output === "" ? "No new output." : `New output:\n${output}`}`;
}

function list(views: readonly ProcessView[]): string {
  if (views.length === 0) return "There are no background processes.";
  return views.map((view) => `${view.id}  ${stateOf(view)}  ${line(view.command)}`).join("\n");
}

function stateOf({ end, startedAtMs }: ProcessView): string {
  if (!end) return `Running for ${Math.round((Date.now() - startedAtMs) / 1000)} s.`;
  return end.exitCode === undefined
    ? `Ended by ${end.signalName ?? "a signal"}.`
    : `Ended with exit code ${end.exitCode}.`;
}

function line(text: string): string {
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length > SHOWN_CHARACTERS ? `${headOf(flat, SHOWN_CHARACTERS)}...` : flat;
}

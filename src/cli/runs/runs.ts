/** `agentd runs`: the runs of the home, or of a server. */
import process from "node:process";
import { defineCommand } from "citty";
import type { ApprovalBody, Run, RunEvent } from "../../client/http.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { UsageError } from "../kit/arguments.ts";
import { withApi } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import {
  jsonOption,
  limitOption,
  requiredArgument,
  switchOption,
  textOption,
  toLimit,
  quietOption,
} from "../kit/options.ts";
import { print, printData, printJson, printTable, warn } from "../kit/output.ts";
import { eventText, RUN_HEAD, runCells, runText } from "./text.ts";

const MAX_LIMIT = 100;
const STATUSES: readonly Run["status"][] = [
  "queued",
  "running",
  "waiting_for_approval",
  "stopping",
  "completed",
  "failed",
  "cancelled",
  "interrupted",
];

const run = requiredArgument("Id of the run (run_...)");
const request = textOption("id", "Id of the question. Default: the oldest one");
const common = { json: jsonOption };

const list = defineApiCommand({
  meta: { name: "list", description: "List the runs, newest first" },
  args: {
    status: { type: "enum", options: [...STATUSES], valueHint: "status", description: "Filter by status" },
    session: textOption("id", "Filter by session"),
    limit: limitOption("Runs", { max: MAX_LIMIT, fallback: 20 }),
    after: textOption("id", "Continue after this id: list older runs"),
    quiet: quietOption,
    ...common,
  },
  async run({ args }) {
    const query = {
      limit: toLimit(args.limit, MAX_LIMIT),
      ...(args.status === undefined ? {} : { status: [args.status as Run["status"]] }),
      ...(args.session === undefined ? {} : { session_id: args.session }),
      ...(args.after === undefined ? {} : { after: args.after }),
    };
    const { data: page } = await withApi(({ client }) => client.listRuns({ query }));
    const next = page.has_more ? page.last_id : null;
    if (args.json) return printJson({ runs: page.data, next_after: next });
    const nowMs = Date.now();
    if (page.data.length === 0) return warn("No runs match.");
    const cells = page.data.map((each) => runCells(each, nowMs));
    if (args.quiet) printData(page.data.map(({ run_id: id }) => id).join("\n"));
    else printTable(RUN_HEAD, cells);
    if (next !== null) warn(`More runs follow: pass --after ${next}`);
  },
});

const show = defineApiCommand({
  meta: { name: "show", description: "Show a run: its state, its open questions, its output or its error" },
  args: { run, ...common },
  async run({ args }) {
    const path = { run_id: args.run };
    const { data } = await withApi(({ client }) => client.getRun({ path }));
    if (args.json) printJson(data);
    else print(runText(data, Date.now()));
  },
});

const follow = defineApiCommand({
  meta: {
    name: "follow",
    description:
      "Print the text of a run as it arrives, from its start, until the run ends. Exits with 1 if the run does not complete. Interrupting the command does not stop the run",
  },
  args: {
    run,
    after: textOption("number", "Start after the event with this number"),
    json: switchOption("Print each event as a line of JSON"),
  },
  async run({ args }) {
    const after = toSequence(args.after);
    const { streamRunEvents } = await import("../../client/http.ts");
    await withApi(async ({ server }) => {
      let last: RunEvent | undefined;
      for await (const event of streamRunEvents(server, args.run, { after })) {
        if (args.json) process.stdout.write(`${JSON.stringify(event)}\n`);
        else printEvent(event);
        last = event;
      }
      if (last?.event !== "run.completed") process.exitCode = EXIT_FAILURE;
    });
  },
});

const approve = defineApiCommand({
  meta: { name: "approve", description: "Approve a tool call of a run that waits for approval" },
  args: {
    run,
    for: {
      type: "enum",
      options: ["once", "session", "always"],
      valueHint: "scope",
      default: "once",
      description: "Approve this call, similar calls of the session, or similar calls always",
    },
    request,
    all: switchOption("Approve all tool calls of the run that wait for approval"),
    ...common,
  },
  async run({ args }) {
    await answer(args, { choice: args.for as ApprovalBody["choice"] });
  },
});

const deny = defineApiCommand({
  meta: { name: "deny", description: "Deny a tool call of a run that waits for approval" },
  args: {
    run,
    request,
    all: switchOption("Deny all tool calls of the run that wait for approval"),
    reason: textOption("text", "Message to the agent"),
    ...common,
  },
  async run({ args }) {
    await answer(args, { choice: "deny", ...(args.reason === undefined ? {} : { reason: args.reason }) });
  },
});

const stop = defineApiCommand({
  meta: { name: "stop", description: "Stop a run. A queued run is cancelled at once" },
  args: { run, reason: textOption("text", "Reason, for the record"), ...common },
  async run({ args }) {
    const body = args.reason === undefined ? {} : { reason: args.reason };
    const path = { run_id: args.run };
    const { data } = await withApi(({ client }) => client.stopRun({ path, body }));
    if (args.json) return printJson(data);
    print(data.status === "stopping" ? `Stopping ${args.run}.` : `${args.run} is ${data.status}.`);
  },
});

export const runsCommand = defineCommand({
  meta: {
    name: "runs",
    description: "List, show, follow, approve, deny and stop runs",
  },
  subCommands: { list, show, follow, approve, deny, stop },
});

interface AnswerOptions {
  readonly run: string;
  readonly request?: string | undefined;
  readonly all?: boolean | undefined;
  readonly json?: boolean | undefined;
}

async function answer(
  { run: id, request: requestId, all, json }: AnswerOptions,
  choice: Pick<ApprovalBody, "choice" | "reason">,
): Promise<void> {
  if (all && requestId !== undefined) throw new UsageError("Give either --request or --all.");
  const body: ApprovalBody = {
    ...choice,
    ...(all ? { all } : {}),
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
  const { data } = await withApi(({ client }) => client.resolveRunApproval({ path: { run_id: id }, body }));
  if (json) return printJson(data);
  const what = data.resolved === 1 ? "1 tool call" : `${data.resolved} tool calls`;
  print(`${choice.choice === "deny" ? "Denied" : "Approved"} ${what} of ${id}.`);
}

/** Text goes to stdout, the rest to stderr, so that the answer can be piped. */
function printEvent(event: RunEvent): void {
  const { text, line } = eventText(event);
  if (line !== undefined) warn(line);
  if (text !== undefined) process.stdout.write(text);
}

function toSequence(text: string | undefined): number {
  if (text === undefined) return 0;
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= 0) return number;
  throw new UsageError(`--after must be the number of an event, not ${JSON.stringify(text)}.`);
}

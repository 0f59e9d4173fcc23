import type { SessionMode } from "../../session/session.ts";
import { reviewCommand } from "./command.ts";
import { areaOf, checkRead, checkWrite, isInside, isWithin, type PolicyPaths } from "./paths.ts";
import { ask, isAlwaysAsked, rememberOf, type Finding, type Remember } from "./risk.ts";
import type { ToolIntent } from "../../tool/tool.ts";

/** How much the agent may do unasked: `ask` for what is risky, `always_ask` for all but reads, `yolo` for nothing. */
export type PolicyMode = "ask" | "always_ask" | "yolo";

/** What holds where the call happens. */
export interface PolicyContext extends PolicyPaths {
  /** As it is configured, or `yolo` where approvals are switched off. */
  readonly mode: PolicyMode;
  /** As it was chosen for the session; absent: nobody chose one, and the configuration alone decides. */
  readonly sessionMode?: SessionMode;
  /** `approvals.allow`: words with which commands begin that need no approval. */
  readonly allow?: readonly string[];
}

export interface PolicyDecision {
  readonly verdict: "allow" | "ask" | "deny";
  /** For people and for the model; says what is risky, or why nothing is. */
  readonly reason: string;
  /** What leave that is kept covers: the kind of call, and what about it was minded. */
  readonly signature: string;
  /** How long leave for it may be kept; src/agent/question/policy/risk.ts has the table. */
  readonly remember: Remember;
}

interface Evaluation {
  readonly findings: readonly Finding[];
  readonly looksOnly: boolean;
  /** Changes something, or may; what reaches another machine need not. */
  readonly changes: boolean;
  /** Changes files of the workspace, and nothing else. */
  readonly editsInside: boolean;
  /** `approvals.allow` names whatever in it may change something. */
  readonly isAllowed?: boolean;
  /** The shape of a call against which there is nothing to say. */
  readonly shape: string;
}

const MAX_REASONS = 3;

/**
 * Decides about one call of `tool`. The principles:
 *
 * - What is known to be safe runs: reading, searching and listing, text tools, version control that loses nothing, public
 *   pages, and edits inside the workspace and the temporary folder. src/agent/question/policy/programs.ts is the table.
 * - What is known to be risky asks, and says why: it deletes or overwrites for good, takes other rights, reads secrets or
 *   the whole home, sends data out, fetches code, or runs code. The tests and builds of the workspace are code too: the
 *   agent may have written what they run, so that people allow them by an answer or by `approvals.allow`. For that reason
 *   a Makefile or a package.json is edited as any file: nothing runs it unasked.
 * - What is unknown asks: a program that stands in no table. A grant for it covers that program and no other.
 * - A word that only running tells counts as anything, so that no spelling hides a place.
 * - The agent's fences are not its own: the service's configuration, keys, jobs and routes, what later sessions obey, and
 *   the commands that change them are asked for each time, in every session mode, and no setting lifts that.
 * - What is never sensible is refused: deleting the home or the system, and the agent's own keys.
 * - What cannot be checked asks.
 *
 * It judges the text of commands, not what programs do once they run: a guard against accidents, careless models and
 * text that was planted, and no sandbox, beside which it keeps its worth. Pure; never throws.
 */
export function decide(intent: ToolIntent, context: PolicyContext, tool = intent.title): PolicyDecision {
  const { findings, looksOnly, isAllowed, shape, ...about } = withEdits(
    evaluate(intent, context, tool),
    intent,
    context,
  );
  const { mode, sessionMode } = context;
  const never = { signature: `${intent.kind}:never`, remember: "never" } as const;
  const denied = findings.filter((finding) => finding.verdict === "deny");
  if (denied.length > 0) return { verdict: "deny", reason: reasonsOf(denied), ...never };
  if (sessionMode === "plan" && about.changes) return { verdict: "deny", reason: ONLY_PLANS, ...never };
  const shapes =
    findings.length > 0 ? [...new Set(findings.map((finding) => finding.shape))].toSorted() : [shape];
  const signature = `${intent.kind}:${shapes.join(" | ")}`;
  const rest = { signature, remember: rememberOf(findings, signature) };
  if (mode === "yolo") return { verdict: "allow", reason: "approvals are switched off", ...rest };
  const isUnasked = sessionMode === "dont_ask";
  const minded = isUnasked ? findings.filter(isAlwaysAsked) : findings;
  if (minded.length > 0) return { verdict: "ask", reason: reasonsOf(minded), ...rest };
  const isSpared = isUnasked || (sessionMode === "accept_edits" && about.editsInside);
  if (isSpared) return { verdict: "allow", reason: "the session's mode does not ask for it", ...rest };
  if (mode === "always_ask" && !looksOnly && !isAllowed) {
    const reason = intent.kind === "network" ? "it reaches another machine" : "it may change something";
    return { verdict: "ask", reason, ...rest };
  }
  return { verdict: "allow", reason: looksOnly ? "it only reads" : "it is an ordinary change", ...rest };
}

/** In mode `ask` every edit requires approval; one for the session covers a folder where work is done, or one file. */
function withEdits(evaluation: Evaluation, intent: ToolIntent, context: PolicyContext): Evaluation {
  const { command, writes = [] } = intent;
  if (context.sessionMode !== "ask") return evaluation;
  if (command !== undefined) return withChanges(evaluation);
  const folders = [context.workspace, ...(context.roots ?? [])];
  const places = writes.flatMap((path) => {
    if (checkWrite(path, context)) return [];
    const folder = folders.find((each) => path !== each && isWithin(path, each));
    return folder === undefined ? `edits of ${path}` : `edits in ${folder}`;
  });
  const asked = [...new Set(places)].map((place) => ask(ASKS_FOR_EDITS, place, "edit"));
  return { ...evaluation, findings: [...evaluation.findings, ...asked] };
}

/** A command that changes something is an edit too; it has no diff, and a grant covers the same text alone. */
function withChanges(evaluation: Evaluation): Evaluation {
  const { changes, isAllowed, findings, shape } = evaluation;
  if (!changes || isAllowed || findings.length > 0) return evaluation;
  return { ...evaluation, findings: [ask(ASKS_FOR_CHANGES, shape, "change")] };
}

const ASKS_FOR_CHANGES =
  "the session is in mode ask, which asks before every command that may change something";
const ASKS_FOR_EDITS = "the session is in mode ask, which asks before every edit";

const ONLY_PLANS =
  "this session is in plan mode, where you may only read, search and fetch, and run commands that only look. Do not " +
  "look for another way to change something: present a plan of what you would do. The user carries it out with you " +
  "by choosing another mode";

function evaluate(intent: ToolIntent, context: PolicyContext, tool: string): Evaluation {
  if (intent.command !== undefined) return evaluateShell(intent, intent.command, context);
  const files = evaluateFiles(intent, context);
  if (intent.kind === "network") return evaluateNetwork(intent, files);
  return intent.kind === "tool" ? evaluateTool(intent, files, tool) : files;
}

function evaluateShell({ script }: ToolIntent, command: string, context: PolicyContext): Evaluation {
  const { text, folder } = script ?? { text: command, folder: undefined };
  const review = reviewCommand(text, context, { folder, allow: context.allow });
  // Without findings the text itself is the shape: an answer covers the same command only.
  return { ...review, changes: !review.looksOnly, editsInside: false, shape: command.trim() };
}

function evaluateFiles({ reads = [], writes = [], title }: ToolIntent, context: PolicyContext): Evaluation {
  const findings = [
    ...reads.map((path) => checkRead(path, context)),
    ...writes.map((path) => checkWrite(path, context)),
  ].filter((finding) => finding !== undefined);
  const places = [...new Set(writes.map((path) => areaOf(path, context)))].toSorted();
  const looksOnly = writes.length === 0;
  return {
    findings,
    looksOnly,
    changes: !looksOnly,
    editsInside: !looksOnly && writes.every((path) => isInside(path, context)),
    shape: looksOnly ? "read" : `write ${places.join(", ") || title}`,
  };
}

/** That the addresses are public is for the tool to see to: only it knows what the names lead to. */
function evaluateNetwork({ hosts = [], title, writes = [] }: ToolIntent, files: Evaluation): Evaluation {
  const names = [...new Set(hosts.map((host) => host.toLowerCase()))].toSorted().join(", ");
  const unknown = names === "" ? [ask("it reaches a machine that is not known", title)] : [];
  const shape = writes.length === 0 ? names : `${names} ${files.shape}`;
  return { ...files, findings: [...files.findings, ...unknown], looksOnly: false, editsInside: false, shape };
}

function evaluateTool(
  { effect, identity, reads = [], writes = [] }: ToolIntent,
  files: Evaluation,
  tool: string,
): Evaluation {
  // Paths say what it does; without them only `effect` can.
  if (effect === "none" || (effect === undefined && reads.length + writes.length > 0)) return files;
  if (effect === "own") return { ...files, changes: true };
  const shape = identity ?? tool;
  const foreign = ask(`it is not known what ${tool} does`, shape, "foreign");
  const findings = [...files.findings, foreign];
  return { findings, looksOnly: false, changes: true, editsInside: false, shape };
}

function reasonsOf(findings: readonly Finding[]): string {
  const reasons = [...new Set(findings.map((finding) => finding.reason))];
  const more = reasons.length > MAX_REASONS ? `; and ${reasons.length - MAX_REASONS} more` : "";
  return `${reasons.slice(0, MAX_REASONS).join("; ")}${more}`;
}

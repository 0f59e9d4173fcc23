import type { SessionMode } from "../../session/session.ts";
import { reviewCommand } from "./command.ts";
import { areaOf, checkRead, checkWrite, isInside, isVital, isWithin, type PolicyPaths } from "./paths.ts";
import { ask, deny, isAlwaysAsked, isContained, rememberOf, type Finding, type Remember } from "./risk.ts";
import type { ToolIntent } from "../../tool/tool.ts";

/** What requires approval: risky calls (`ask`), all calls but reads (`always_ask`), or none (`yolo`). */
export type PolicyMode = "ask" | "always_ask" | "yolo";

/** The settings and paths at the call. */
export interface PolicyContext extends PolicyPaths {
  /** The configured mode, or `yolo` when approvals are switched off. */
  readonly mode: PolicyMode;
  /** The mode chosen for the session. Absent: only the configuration applies. */
  readonly sessionMode?: SessionMode;
  /** `approvals.allow`: prefixes of commands that need no approval. */
  readonly allow?: readonly string[];
}

export interface PolicyDecision {
  readonly outcome: "allow" | "ask" | "deny";
  /** For people and for the model: what is risky, or why nothing is. */
  readonly reason: string;
  /** What a remembered approval covers: the kind of call and its findings. */
  readonly signature: string;
  /** How long an approval may be remembered; src/agent/question/policy/risk.ts has the table. */
  readonly remember: Remember;
}

interface Evaluation {
  readonly findings: readonly Finding[];
  readonly looksOnly: boolean;
  /** True when it changes something or may. Reaching another machine does not count. */
  readonly changes: boolean;
  /** True when it only changes files of the workspace. */
  readonly editsInside: boolean;
  /** True when `approvals.allow` covers every part that may change something. */
  readonly isAllowed?: boolean;
  /** The shape of a call without findings. */
  readonly shape: string;
}

const MAX_REASONS = 3;

/**
 * Decides about one call of `tool`. The principles:
 *
 * - Known safe calls run: reading, searching and listing, text tools, lossless version control, public pages, and edits
 * inside the workspace and the temporary folder. src/agent/question/policy/programs.ts is the table.
 * - Known risky calls ask and say why: those that permanently delete or overwrite, change user rights, read secrets or
 * the whole home, send data out, fetch code, or run code. Tests and builds of the workspace are code too, because the
 * agent may have written it; people allow them by an answer or by `approvals.allow`. A Makefile or a package.json is
 * therefore edited like any file: nothing runs it without approval.
 * - Unknown programs ask. A grant for one covers that program only.
 * - A word that is only known at run time counts as anything, so that no spelling hides a path.
 * - Calls that change the agent's own limits always ask, in every session mode and whatever the settings: the service's
 * configuration, keys, jobs and routes, the files that control later sessions, and the commands that change them.
 * - Calls that are never sensible are refused: deleting the home or the system, and reading the agent's own keys.
 * - Calls that cannot be checked ask.
 *
 * The policy evaluates the text of commands, not the behaviour of running programs. It guards against accidents,
 * careless models and injected text. A command in the sandbox of src/exec/sandbox asks only about what the sandbox does
 * not contain: what it destroys inside the workspace, secrets there, hosts, further folders, and what later sessions obey. Pure; never
 * throws.
 */
export function decide(intent: ToolIntent, context: PolicyContext, tool = intent.title): PolicyDecision {
  const { looksOnly, isAllowed, shape, ...about } = withEdits(
    evaluate(intent, context, tool),
    intent,
    context,
  );
  const { sandbox } = intent;
  const findings = sandbox
    ? about.findings.filter((finding) => !isContained(finding, sandbox))
    : about.findings;
  const { mode, sessionMode } = context;
  const never = { signature: `${intent.kind}:never`, remember: "never" } as const;
  const denied = findings.filter((finding) => finding.outcome === "deny");
  if (denied.length > 0) return { outcome: "deny", reason: reasonsOf(denied), ...never };
  // In the sandbox, plan mode is kept by a file system that cannot be changed.
  const isReadOnly = sandbox !== undefined && (sandbox.folders ?? []).length === 0;
  if (sessionMode === "plan" && about.changes && !isReadOnly)
    return { outcome: "deny", reason: ONLY_PLANS, ...never };
  const shapes =
    findings.length > 0 ? [...new Set(findings.map((finding) => finding.shape))].toSorted() : [shape];
  const signature = `${intent.kind}:${shapes.join(" | ")}`;
  const rest = { signature, remember: rememberOf(findings, signature) };
  if (mode === "yolo") return { outcome: "allow", reason: "approvals are switched off", ...rest };
  const skipsQuestions = sessionMode === "dont_ask";
  const relevant = skipsQuestions ? findings.filter(isAlwaysAsked) : findings;
  if (relevant.length > 0) return { outcome: "ask", reason: reasonsOf(relevant), ...rest };
  const isExempt = skipsQuestions || (sessionMode === "accept_edits" && about.editsInside);
  if (isExempt) return { outcome: "allow", reason: "the session's mode allows it without asking", ...rest };
  if (sandbox && sessionMode === "plan")
    return { outcome: "allow", reason: "the sandbox lets it only read", ...rest };
  if (mode === "always_ask" && !looksOnly && !isAllowed) {
    const reason = intent.kind === "network" ? "it reaches another machine" : "it may change something";
    return { outcome: "ask", reason, ...rest };
  }
  const why = looksOnly ? "it only reads" : sandbox ? "the sandbox contains it" : "it is an ordinary change";
  return { outcome: "allow", reason: why, ...rest };
}

/**
 * In session mode `ask` every edit requires approval. An approval for the session covers a folder of the workspace, or
 * one file.
 */
function withEdits(evaluation: Evaluation, intent: ToolIntent, context: PolicyContext): Evaluation {
  const { command, writes = [] } = intent;
  if (context.sessionMode !== "ask") return evaluation;
  if (command !== undefined) return withChanges(evaluation);
  const folders = [context.workspace, ...(context.roots ?? [])];
  const areas = writes.flatMap((path) => {
    if (checkWrite(path, context)) return [];
    const folder = folders.find((each) => path !== each && isWithin(path, each));
    return folder === undefined ? `edits of ${path}` : `edits in ${folder}`;
  });
  const edits = [...new Set(areas)].map((area) => ask(ASKS_FOR_EDITS, area, "edit"));
  return { ...evaluation, findings: [...evaluation.findings, ...edits] };
}

/** A command that changes something counts as an edit without a diff; a grant covers the same text only. */
function withChanges(evaluation: Evaluation): Evaluation {
  const { changes, isAllowed, findings, shape } = evaluation;
  if (!changes || isAllowed || findings.length > 0) return evaluation;
  return { ...evaluation, findings: [ask(ASKS_FOR_CHANGES, shape, "change")] };
}

const ASKS_FOR_CHANGES =
  "the session is in mode ask, which asks before every command that may change something";
const ASKS_FOR_EDITS = "the session is in mode ask, which asks before every edit";

const ONLY_PLANS =
  "this session is in plan mode, where you may only read, search and fetch, and run commands that only read. Do not " +
  "look for another way to change something: present a plan of what you would do. The user approves it " +
  "by choosing another mode";

function evaluate(intent: ToolIntent, context: PolicyContext, tool: string): Evaluation {
  if (intent.command !== undefined) return evaluateShell(intent, intent.command, context);
  const files = evaluateFiles(intent, context);
  if (intent.kind === "network") return evaluateNetwork(intent, files);
  return intent.kind === "tool" ? evaluateTool(intent, files, tool) : files;
}

function evaluateShell({ script, sandbox }: ToolIntent, command: string, context: PolicyContext): Evaluation {
  const { text, folder } = script ?? { text: command, folder: undefined };
  const review = reviewCommand(text, context, { folder, allow: context.allow });
  const reached = (sandbox?.hosts ?? []).map((host) => ask(`it reaches ${host}`, `host ${host}`, "reaching"));
  const opened = (sandbox?.folders ?? []).flatMap((folder) => checkOpening(folder, context) ?? []);
  const findings = [...review.findings, ...reached, ...opened];
  // Without findings the text is the shape: a grant covers the same command only.
  return { ...review, findings, changes: !review.looksOnly, editsInside: false, shape: command.trim() };
}

/** Checks a folder that a command in the sandbox wants to change. The temporary folder outside is not its own. */
function checkOpening(folder: string, context: PolicyContext): Finding | undefined {
  if (isInside(folder, context)) return undefined;
  if (folder === "/" || isVital(folder, context)) {
    return deny(`${folder} is a whole home or a folder of the system. Name the folder in it that changes`);
  }
  const finding = checkWrite(folder, context);
  if (finding !== undefined && finding.risk !== "outside") return finding;
  return ask(`it changes files in ${folder}`, `folder ${folder}`, "opening");
}

function evaluateFiles({ reads = [], writes = [], title }: ToolIntent, context: PolicyContext): Evaluation {
  const findings = [
    ...reads.map((path) => checkRead(path, context)),
    ...writes.map((path) => checkWrite(path, context)),
  ].filter((finding) => finding !== undefined);
  const areas = [...new Set(writes.map((path) => areaOf(path, context)))].toSorted();
  const looksOnly = writes.length === 0;
  return {
    findings,
    looksOnly,
    changes: !looksOnly,
    editsInside: !looksOnly && writes.every((path) => isInside(path, context)),
    shape: looksOnly ? "read" : `write ${areas.join(", ") || title}`,
  };
}

/** The tool ensures that the addresses are public: only it resolves the names. */
function evaluateNetwork({ hosts = [], title, writes = [] }: ToolIntent, files: Evaluation): Evaluation {
  const names = [...new Set(hosts.map((host) => host.toLowerCase()))].toSorted().join(", ");
  const unknown = names === "" ? [ask("it reaches an unknown machine", title)] : [];
  const shape = writes.length === 0 ? names : `${names} ${files.shape}`;
  return { ...files, findings: [...files.findings, ...unknown], looksOnly: false, editsInside: false, shape };
}

function evaluateTool(
  { effect, identity, reads = [], writes = [] }: ToolIntent,
  files: Evaluation,
  tool: string,
): Evaluation {
  // Paths say what the tool does; without paths only `effect` does.
  if (effect === "none" || (effect === undefined && reads.length + writes.length > 0)) return files;
  if (effect === "own") return { ...files, changes: true };
  const shape = identity ?? tool;
  const foreign = ask(`the effect of ${tool} is unknown`, shape, "foreign");
  const findings = [...files.findings, foreign];
  return { findings, looksOnly: false, changes: true, editsInside: false, shape };
}

function reasonsOf(findings: readonly Finding[]): string {
  const reasons = [...new Set(findings.map((finding) => finding.reason))];
  const more = reasons.length > MAX_REASONS ? `; and ${reasons.length - MAX_REASONS} more` : "";
  return `${reasons.slice(0, MAX_REASONS).join("; ")}${more}`;
}

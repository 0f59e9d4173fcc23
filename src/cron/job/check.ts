/** Checks jobs: whether one can run at all, before it spends anything, and what its prompt must not contain. Touches the machine. */
import { redact } from "../../base/observe.ts";
import { stat } from "node:fs/promises";
import { findScriptFile } from "../../exec/script-file.ts";
import { isReady, type ModelCatalog } from "../../agent/model.ts";
import { type JobDefinition, toolsetNames } from "./job.ts";
import type { PreflightDeps } from "../deps.ts";

/** Returns why the job cannot run, in a sentence or two for people; undefined when it can. */
export async function findBlock(deps: PreflightDeps, job: JobDefinition): Promise<string | undefined> {
  return (await blockOfFiles(deps, job)) ?? (job.isScriptOnly ? undefined : blockOfAgent(deps, job));
}

async function blockOfFiles(
  { scriptsFolder }: PreflightDeps,
  { script, workdir, isScriptOnly }: JobDefinition,
): Promise<string | undefined> {
  if (script === undefined && isScriptOnly) return "The job has no agent, and no script either.";
  if (script !== undefined && (await findScriptFile(script, scriptsFolder)) === undefined) {
    return `The file ${JSON.stringify(script)} does not exist in the folder of scripts, ${scriptsFolder}.`;
  }
  if (workdir !== undefined && !(await isFolder(workdir))) {
    return `The working directory of the job, ${workdir}, does not exist.`;
  }
  return undefined;
}

function blockOfAgent(deps: PreflightDeps, job: JobDefinition): string | undefined {
  const wanted = job.toolsets ?? deps.settings.toolsets ?? [];
  const offered = wanted.length > 0 ? toolsetNames(deps.toolsets) : [];
  const unknown = wanted.filter((name) => !offered.includes(name));
  if (unknown.length > 0) {
    const names = unknown.map((name) => JSON.stringify(name)).join(", ");
    return `Unknown toolset ${names}. The toolsets are: ${offered.join(", ")}.`;
  }
  return blockOfModel(deps, job) ?? scanPrompt(job.prompt);
}

function blockOfModel({ models, fallbacks = [] }: PreflightDeps, job: JobDefinition): string | undefined {
  const unchosen = job.model === undefined ? models.whyUnchosen?.() : undefined;
  if (unchosen !== undefined) return unchosen;
  const ref = job.model === undefined ? models.default : models.resolve(job.model);
  if (!ref) return `Unknown model ${JSON.stringify(job.model)}: no configured provider has it.`;
  const others = fallbacks.flatMap((name) => models.resolve(name) ?? []);
  if ([ref, ...others].some(({ provider }) => canBeCalled(models, provider))) return undefined;
  return `The key for ${ref.provider}, the provider of the job's model, is missing.`;
}

function canBeCalled(models: ModelCatalog, provider: string): boolean {
  const listed = models.list().find(({ name }) => name === provider);
  return listed !== undefined && isReady(listed);
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/** Finds dangerous text in prompts, which run unattended: the matching text, or undefined. Toolsets limit what a job may do. */
type Find = (text: string) => string | undefined;

interface Threat {
  readonly id: string;
  /** Completes "reads like". */
  readonly what: string;
  readonly find: Find;
}

const MAX_EXCERPT_CHARACTERS = 60;

/**
 * Returns why a prompt is refused, for people; undefined when nothing is found. It looks for invisible characters, for orders
 * to ignore earlier instructions, and for commands that expose secrets or the machine.
 */
export function scanPrompt(text: string): string | undefined {
  const invisible = invisibleIn(text);
  if (invisible !== undefined) {
    return `Blocked: prompt matches threat pattern 'invisible_unicode': it contains the invisible character ${invisible}. Remove it, or type the text again.`;
  }
  return sentenceOf([...DIRECTIVES, ...COMMANDS], text);
}

/**
 * Returns the text without invisible characters, and why it is refused. For texts that contain skills and outputs: they may
 * mention commands, so only orders to the agent count.
 */
export function scanAssembled(text: string): { readonly text: string; readonly problem?: string } {
  const visible = withoutInvisible(text);
  const problem = sentenceOf(DIRECTIVES, visible);
  return { text: visible, ...(problem === undefined ? {} : { problem }) };
}

function sentenceOf(threats: readonly Threat[], text: string): string | undefined {
  const plain = text.normalize("NFKC");
  for (const { id, what, find } of threats) {
    const found = find(plain);
    if (found === undefined) continue;
    const excerpt = JSON.stringify(
      redact(found.replace(/\s+/g, " ").trim()).slice(0, MAX_EXCERPT_CHARACTERS),
    );
    const hint = "Reword it, or move a command to a script in <home>/scripts";
    return `Blocked: prompt matches threat pattern '${id}': ${excerpt} reads like ${what}. ${hint}. To limit what a job may do, set its toolsets.`;
  }
  return undefined;
}

const matching =
  (pattern: RegExp): Find =>
  (text) =>
    pattern.exec(text)?.[0];

const FILLER = "all|any|every|and|of|the|these|those|my|other|current|safety|security|developer";
/** Words for instructions that the agent got before. */
const OWN = "previous|prior|above|earlier|preceding|foregoing|existing|original|initial|your|system";
const ORDERS = "instructions?|prompts?|rules?|guidelines?|directives?|guardrails?";
/** Careful people write "Ignore any instructions in the mails". */
const ELSEWHERE = "in|inside|within|from|found|contained|embedded|that|which|written|hidden|it|they|of";

const orders = (verbs: string): RegExp =>
  new RegExp(
    String.raw`\b(?:${verbs})\s+(?:` +
      String.raw`(?:(?:${FILLER})\s+){0,6}(?:(?:${OWN})\s+)(?:(?:${FILLER}|${OWN})\s+){0,6}(?:${ORDERS})\b` +
      String.raw`|(?:all|any|every)\s+(?:(?:${FILLER})\s+){0,6}(?:${ORDERS})\b(?!\s+(?:${ELSEWHERE})\b))`,
    "i",
  );

const DIRECTIVES: readonly Threat[] = [
  {
    id: "prompt_injection",
    what: "an order to ignore earlier instructions",
    find: matching(orders("ignore|forget")),
  },
  {
    id: "deception_hide",
    what: "an order to keep something from the user",
    find: matching(
      /\b(?:do\s+not|don['’]?t|never)\s+(?:ever\s+)?tell\s+(?:the|your|this)\s+users?\b(?!\s+(?:twice|again|more\s+than)\b)/i,
    ),
  },
  {
    id: "sys_prompt_override",
    what: "an order to replace the agent's own rules",
    find: matching(/\bsystem\s+prompt\s+override\b/i),
  },
  {
    id: "disregard_rules",
    what: "an order to disregard earlier instructions",
    find: matching(orders("disregard")),
  },
];

/** Matches commands and phrases that change `file`. */
const changes = (file: string): RegExp =>
  new RegExp(
    String.raw`(?:>|\btee\s+(?:-\S+\s+){0,2})\s*["']?\S{0,200}${file}` +
      String.raw`|\b(?:add|append|write|put|insert|inject|copy|install|echo|cp|mv)\b[^\n]{0,300}?(?:>|\b(?:to|into|in|at))\s*(?:(?:the|my|root['’]?s)\s+){0,2}["'\x60]?\S{0,200}${file}` +
      String.raw`|\b(?:edit|modify|overwrite|replace|append\s+to|write\s+to|change)\s+(?:(?:the|my|file|root['’]?s)\s+){0,3}["'\x60]?\S{0,200}${file}`,
    "i",
  );

const SECRET_FILE = String.raw`(?:\.env|\.netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials|[./~][^\s"'\x60]{0,200}credentials|id_(?:rsa|dsa|ecdsa|ed25519)|[./~][^\s"'\x60]{0,200}\.pem)(?!\.?[\w-])`;
const READS = new RegExp(
  String.raw`\b(?:cat|bat|xxd|base64|strings)\s+(?:[^\s|;&]{1,200}\s+){0,4}?["']?[^\s|;&]{0,200}?${SECRET_FILE}` +
    String.raw`|\b(?:less|more|head|tail|type)\s+(?:-\S{1,20}\s+(?:\d+\s+)?){0,3}["']?[^\s|;&]{0,200}?${SECRET_FILE}`,
  "i",
);

const RECURSIVE = String.raw`(?:-\S{0,20}\s+){0,5}(?:-[a-qs-z]{0,10}r[a-z]{0,10}|--recursive)\s+(?:-\S{0,20}\s+){0,5}`;
const ROOTS = String.raw`(?:\/(?:(?:bin|boot|etc|home|lib|lib64|opt|root|sbin|srv|usr|var)(?:\/\*?)?)?|~\/?|\$\{?HOME\}?\/?)\*?`;

const COMMANDS: readonly Threat[] = [
  { id: "read_secrets", what: "a command that shows secrets", find: matching(READS) },
  {
    id: "ssh_backdoor",
    what: "an order to grant SSH access",
    find: matching(changes("authorized_keys")),
  },
  {
    id: "sudoers_mod",
    what: "an order to grant root rights",
    find: matching(new RegExp(`${changes("sudoers").source}|\\bNOPASSWD\\s*:\\s*ALL\\b|\\bvisudo\\s+-`, "i")),
  },
  {
    id: "destructive_root_rm",
    what: "a command that removes the system or a home",
    find: matching(
      new RegExp(String.raw`\brm\s+${RECURSIVE}["']?${ROOTS}["']?(?=[.,]?(?:\s|$)|[;&|)\x60"'])`, "i"),
    ),
  },
  { id: "exfil_http", what: "a command that sends a secret away", find: leaksSecret },
];

const NETWORK_COMMAND = /\b(?:curl|wget)\b(?:\\\n|[^\n]){0,2000}/gi;
const SECRET_VARIABLE = /\$\{?\w{0,64}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API)\w{0,64}/gi;
/** The option with which a command logs in at a code host. */
const LOGIN =
  /(?:-H|--header)[=\s]*["']?(?:authorization:\s*(?:token|bearer|basic)?|(?:private|job|deploy)-token:)\s*$|(?:-u|--user)[=\s]*["']?[\w.-]{0,64}:?$/i;
const CODE_HOSTS = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "gitea.com", "sr.ht"];
const LOGIN_CHARACTERS = 120;

/** Returns a command that puts a secret variable into a request. Logging in at a code host does not count. */
function leaksSecret(text: string): string | undefined {
  for (const [command] of text.matchAll(NETWORK_COMMAND)) {
    const secrets = [...command.matchAll(SECRET_VARIABLE)];
    if (secrets.length === 0) continue;
    const logsIn = secrets.every(({ index }) =>
      LOGIN.test(command.slice(Math.max(0, index - LOGIN_CHARACTERS), index)),
    );
    if (!logsIn || !isAtCodeHost(command)) return command;
  }
  return undefined;
}

function isAtCodeHost(command: string): boolean {
  const urls = command.match(/\bhttps?:\/\/[^\s"'`]{1,2000}/gi) ?? [];
  return urls.length > 0 && urls.every((url) => isCodeHost(url));
}

function isCodeHost(url: string): boolean {
  const host = URL.canParse(url) ? new URL(url).hostname : "";
  return CODE_HOSTS.some((known) => host === known || host.endsWith(`.${known}`));
}

/** Writing systems that use characters to join letters or keep them apart. */
const JOINING = [
  "Arabic",
  "Syriac",
  "Mongolian",
  "Nko",
  "Devanagari",
  "Bengali",
  "Gurmukhi",
  "Gujarati",
  "Oriya",
  "Tamil",
  "Telugu",
  "Kannada",
  "Malayalam",
  "Sinhala",
  "Khmer",
  "Myanmar",
]
  .map((script) => String.raw`\p{Script=${script}}`)
  .join("");
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u;

/** Flags of regions consist of tag characters, which are invisible elsewhere. */
const FLAG = String.raw`\u{1f3f4}[\u{e0020}-\u{e007e}]{1,8}\u{e007f}`;
const JOINERS = [
  String.raw`(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f${JOINING}])\u200d`,
  String.raw`(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?!\p{Extended_Pictographic})`,
  String.raw`(?<![${JOINING}])\u200c`,
].join("|");
const ALWAYS = String.raw`[\u00ad\u115f\u1160\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\u{e0000}-\u{e0fff}]`;
/** One selector may choose how the character before it looks; more only carry hidden data. */
const SELECTORS = String.raw`(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]|(?<!\p{Script=Han})[\u{e0100}-\u{e01ef}]`;
const IDEOGRAPH = String.raw`\p{Script=Han}[\u{e0100}-\u{e01ef}]`;
const MARKS = String.raw`[\u200e\u200f]`;

const KEPT = `(?<kept>${FLAG}|${IDEOGRAPH})`;
const WITHOUT_MARKS = new RegExp(`${KEPT}|${ALWAYS}|${JOINERS}|${SELECTORS}|${MARKS}`, "gu");
/** Right-to-left text needs direction marks. */
const MIXED = new RegExp(`${KEPT}|${ALWAYS}|${JOINERS}|${SELECTORS}`, "gu");

/** Removes invisible characters, except those that emoji and letters need. */
export function withoutInvisible(text: string): string {
  if (!MAYBE.test(text)) return text;
  const pattern = RIGHT_TO_LEFT.test(text) ? MIXED : WITHOUT_MARKS;
  return text.replace(pattern, (...found) => (found.at(-1) as { readonly kept?: string }).kept ?? "");
}

/** Returns the first invisible character as `U+200B`; undefined without one. A byte order mark at the start does not count. */
export function invisibleIn(text: string): string | undefined {
  const seen = text.replace(/^\ufeff/, "");
  if (!MAYBE.test(seen)) return undefined;
  for (const found of seen.matchAll(RIGHT_TO_LEFT.test(seen) ? MIXED : WITHOUT_MARKS)) {
    if (found.groups?.["kept"] !== undefined) continue;
    return `U+${(found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  }
  return undefined;
}

/** A quick check: most text has no such character. */
const MAYBE = new RegExp(
  String.raw`[\u00ad\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\u{fe00}-\u{fe0f}\ufeff\uffa0\u{e0000}-\u{e0fff}]`,
  "u",
);

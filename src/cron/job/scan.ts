/** Words that give an agent away, in what it is to be asked unattended. What it may do is limited elsewhere. Pure. */
import { redact } from "../../base/observe/redact.ts";
import { invisibleIn, withoutInvisible } from "./invisible.ts";
import { leaksSecret } from "./scan-secrets.ts";

/** What a pattern sees; the text that it is about, or undefined. */
type Find = (text: string) => string | undefined;

interface Threat {
  readonly id: string;
  /** What it reads like, behind "It reads like". */
  readonly what: string;
  readonly find: Find;
}

const MAX_EXCERPT_CHARACTERS = 60;

/**
 * What is wrong with a prompt that a person wrote, sentences; undefined: nothing that is known. It is read for invisible
 * characters, for orders to forget what holds, and for commands that give secrets or the machine away.
 */
export function scanPrompt(text: string): string | undefined {
  const invisible = invisibleIn(text);
  if (invisible !== undefined) {
    return `Blocked: prompt matches threat pattern 'invisible_unicode': it holds ${invisible}, which nobody sees. Take it out, or type the text anew.`;
  }
  return sentenceOf([...DIRECTIVES, ...COMMANDS], text);
}

/**
 * The text without what nobody sees, and what is wrong with it. For texts that skills, outputs and scripts were put into:
 * they may well speak of commands, so only orders to the agent count.
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
    const advice = "Say it in other words, or put a command into a script below <home>/scripts";
    return `Blocked: prompt matches threat pattern '${id}': ${excerpt} reads like ${what}. ${advice}; what a job may do at all, its toolsets say.`;
  }
  return undefined;
}

const matching =
  (pattern: RegExp): Find =>
  (text) =>
    pattern.exec(text)?.[0];

const FILLER = "all|any|every|and|of|the|these|those|my|other|current|safety|security|developer";
/** What only the agent itself was told before. */
const OWN = "previous|prior|above|earlier|preceding|foregoing|existing|original|initial|your|system";
const ORDERS = "instructions?|prompts?|rules?|guidelines?|directives?|guardrails?";
/** "Ignore any instructions in the mails" is what careful people write. */
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
    what: "an order to ignore what the agent was told before",
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
    what: "an order to disregard what the agent was told before",
    find: matching(orders("disregard")),
  },
];

/** Names of a file after what would change it. */
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
    what: "an order to let somebody in",
    find: matching(changes("authorized_keys")),
  },
  {
    id: "sudoers_mod",
    what: "an order to give somebody the rights of root",
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

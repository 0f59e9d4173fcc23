/** Finds dangerous text in the prompts and scripts of jobs, which run unattended. Toolsets limit what a job may do. Pure. */
import { redact } from "../../base/observe/redact.ts";

/** Returns the matching text, or undefined. */
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

/** Commands that send secrets over the network. Pure. */

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

/** Jobs that would stop or start the service that runs them, again and again. Pure. */

const SERVICE = String.raw`["'\x60]?agentd(?:[.@]\S{0,60}|-gateway)?(?![\w-])`;
const VERB = "(?:re)?start|stop|kill|reload|shutdown|disable|try-restart|kickstart|bootout|unload";
const WORDS = String.raw`(?:\s+[^\s;|&\x60]{1,100}){0,6}?\s+`;
const MANAGERS =
  "systemctl|launchctl|(?:docker|podman)(?:[ -]compose)?|kubectl|supervisorctl|pm2|rc-service|initctl|brew\\s+services|nssm";

/** Commands that stop or start the service, as typed. */
const SERVICE_COMMANDS = [
  String.raw`\b(?:${MANAGERS})${WORDS}(?:${VERB}|delete|rm|down)${WORDS}(?:\S{0,60}\/)?${SERVICE}`,
  String.raw`\b(?:service|rc-service|sv|pm2)\s+${SERVICE}\s+(?:${VERB})\b`,
  String.raw`\b(?:pkill|killall)${WORDS}${SERVICE}`,
  String.raw`\bkill\b[^\n;]{0,40}\b(?:pidof|pgrep)\b[^\n;]{0,40}${SERVICE}`,
  String.raw`\b(?:pidof|pgrep)\b[^\n;]{0,40}${SERVICE}[^\n;]{0,20}\|\s*xargs\b[^\n;]{0,20}\bkill\b`,
  String.raw`\bagentd\s+gateway\s+(?:run|${VERB})\b`,
];
const TYPED = new RegExp(SERVICE_COMMANDS.join("|"), "gi");
/** In a script, the command without a verb starts the service too. */
const IN_SCRIPT = new RegExp(
  `${TYPED.source}|^\\s*(?:sudo\\s+|exec\\s+|nohup\\s+)*agentd\\s+gateway\\b`,
  "gim",
);
/** In a prompt, phrases count too. */
const IN_PROMPT = new RegExp(
  String.raw`${TYPED.source}|\b(?:restart|stop|kill|shut\s+down|reboot)\s+(?:the\s+)?agentd(?![\w-])(?!\s+(?:job|session|run)s?\b)|\b(?:run|execute|call|type)\s+["'\x60]?agentd\s+gateway\b(?!\s+setup)`,
  "gi",
);

/** Words that only mention a command. */
const MENTIONED =
  /\b(?:never|not|don['’]?t|without|how\s+to|when\s+to|whether|why|who|did|does|explain|describe|document|documents?|mentions?|mentioning|contains?|says?|about|grep|search|look(?:ing)?\s+for|count|occurrences?|uses?\s+of)\b/i;
const CLAUSE_CHARACTERS = 160;

/** Returns why a text that stops or starts the service is refused; undefined when it does not. */
export function lifecycleProblem(text: string, what: "prompt" | "script"): string | undefined {
  const found = what === "script" ? inScript(text) : inPrompt(text);
  if (found === undefined) return undefined;
  const excerpt = JSON.stringify(found.replace(/\s+/g, " ").trim().slice(0, 80));
  return `The ${what} would stop or start the service that runs the job (${excerpt}), which can become an endless loop. Use the service manager of the system instead.`;
}

function inPrompt(text: string): string | undefined {
  for (const { 0: found, index } of text.matchAll(IN_PROMPT)) {
    const before = text.slice(Math.max(0, index - CLAUSE_CHARACTERS), index);
    const clause = before.split(/[.;:!?\n,]|\b(?:and|then|but)\b/i).at(-1) ?? "";
    if (!MENTIONED.test(clause)) return found;
  }
  return undefined;
}

/** Comments and lines that only print do not count. */
function inScript(text: string): string | undefined {
  const lines = text
    .split("\n")
    .filter((line) => !/^\s*(?:#|\/\/|\*|(?:echo|printf|print|console\.log)\b[^|]*$)/.test(line));
  // Languages other than the shell write the words of a command as a list.
  const plain = lines.map((line) => line.replace(/["',[\]()]+/g, " ")).join("\n");
  return plain.match(IN_SCRIPT)?.[0];
}

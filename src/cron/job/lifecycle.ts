/** Jobs that would stop or start the service that runs them, again and again. Pure. */

const SERVICE = String.raw`["'\x60]?agentd(?:[.@]\S{0,60}|-gateway)?(?![\w-])`;
const VERB = "(?:re)?start|stop|kill|reload|shutdown|disable|try-restart|kickstart|bootout|unload";
const WORDS = String.raw`(?:\s+[^\s;|&\x60]{1,100}){0,6}?\s+`;
const MANAGERS =
  "systemctl|launchctl|(?:docker|podman)(?:[ -]compose)?|kubectl|supervisorctl|pm2|rc-service|initctl|brew\\s+services|nssm";

/** As they are typed. */
const COMMANDS = [
  String.raw`\b(?:${MANAGERS})${WORDS}(?:${VERB}|delete|rm|down)${WORDS}(?:\S{0,60}\/)?${SERVICE}`,
  String.raw`\b(?:service|rc-service|sv|pm2)\s+${SERVICE}\s+(?:${VERB})\b`,
  String.raw`\b(?:pkill|killall)${WORDS}${SERVICE}`,
  String.raw`\bkill\b[^\n;]{0,40}\b(?:pidof|pgrep)\b[^\n;]{0,40}${SERVICE}`,
  String.raw`\b(?:pidof|pgrep)\b[^\n;]{0,40}${SERVICE}[^\n;]{0,20}\|\s*xargs\b[^\n;]{0,20}\bkill\b`,
  String.raw`\bagentd\s+gateway\s+(?:run|${VERB})\b`,
];
const TYPED = new RegExp(COMMANDS.join("|"), "gi");
/** Where all of it is commands, one without a verb starts the service too. */
const IN_SCRIPT = new RegExp(
  `${TYPED.source}|^\\s*(?:sudo\\s+|exec\\s+|nohup\\s+)*agentd\\s+gateway\\b`,
  "gim",
);
/** As people say it. */
const IN_PROMPT = new RegExp(
  String.raw`${TYPED.source}|\b(?:restart|stop|kill|shut\s+down|reboot)\s+(?:the\s+)?agentd(?![\w-])(?!\s+(?:job|session|run)s?\b)|\b(?:run|execute|call|type)\s+["'\x60]?agentd\s+gateway\b(?!\s+setup)`,
  "gi",
);

/** What makes of a command a thing that is spoken of. */
const SPOKEN_OF =
  /\b(?:never|not|don['’]?t|without|how\s+to|when\s+to|whether|why|who|did|does|explain|describe|document|documents?|mentions?|mentioning|contains?|says?|about|grep|search|look(?:ing)?\s+for|count|occurrences?|uses?\s+of)\b/i;
const CLAUSE_CHARACTERS = 160;

/** A sentence; undefined when the text asks for no such thing. */
export function lifecycleProblem(text: string, what: "prompt" | "script"): string | undefined {
  const found = what === "script" ? inScript(text) : inPrompt(text);
  if (found === undefined) return undefined;
  const told = JSON.stringify(found.replace(/\s+/g, " ").trim().slice(0, 80));
  return `The ${what} would stop or start the service that runs the job (${told}), which can go on in a circle. Leave that to the system's own service manager.`;
}

function inPrompt(text: string): string | undefined {
  for (const { 0: found, index } of text.matchAll(IN_PROMPT)) {
    const before = text.slice(Math.max(0, index - CLAUSE_CHARACTERS), index);
    const clause = before.split(/[.;:!?\n,]|\b(?:and|then|but)\b/i).at(-1) ?? "";
    if (!SPOKEN_OF.test(clause)) return found;
  }
  return undefined;
}

/** Remarks, and lines that only print, do nothing. */
function inScript(text: string): string | undefined {
  const lines = text
    .split("\n")
    .filter((line) => !/^\s*(?:#|\/\/|\*|(?:echo|printf|print|console\.log)\b[^|]*$)/.test(line));
  // Other languages than the shell's write the words of a command as a list.
  const plain = lines.map((line) => line.replace(/["',[\]()]+/g, " ")).join("\n");
  return plain.match(IN_SCRIPT)?.[0];
}

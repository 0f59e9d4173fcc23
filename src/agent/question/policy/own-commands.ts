/** The service's own commands. Those that change its configuration are for its user, because they control the agent. */
import { operandsOf, type Call, type Rule } from "./program.ts";
import { isConstant } from "./words.ts";

/** Commands that only show the service, not conversations or messages: first word, and second where several exist. */
const showing: Readonly<Record<string, RegExp>> = {
  version: /^$/,
  doctor: /^$/,
  status: /^$/,
  spec: /^\w*$/,
  help: /^\w*$/,
  model: /^(|show|list)$/,
  config: /^(path|check|get)$/,
  context: /^list$/,
  sessions: /^list$/,
  cron: /^(list|show|runs|status)$/,
  webhook: /^(list|ls)$/,
  platforms: /^list$/,
  outbox: /^list$/,
  deliveries: /^list$/,
};
const secretKey = /key|secret|token|password|credential|header|env|auth/i;

/** Returns whether a path, a package name or a name of the service manager means the service's program. */
export const isService = (path: string): boolean =>
  /(^|[/:])agentd(@[\w.-]+)?(\.m?js|\.service|\.plist)?$/.test(path) ||
  /(^|\/)src\/cli\/main\.ts$/.test(path);

/** `agentd` and its words. */
export const service: Rule = (call) => {
  if (!looks(call.args)) changesService(call, call.args);
};

/** Reports a call of the service's program through another program, whose name may be misleading. */
export function changesService(call: Call, args: readonly string[]): void {
  const words = args
    .filter((arg) => !arg.startsWith("-"))
    .slice(0, 2)
    .join(" ");
  call.ask(
    `agentd ${isConstant(words) ? words : "?"} changes or starts the service, which controls what the agent may do`,
    "own",
  );
}

function looks(args: readonly string[]): boolean {
  if (!args.every(isConstant)) return false;
  if (args.length === 0 || asksOnlyHelp(args)) return true;
  // The last three send an API key to a server.
  if (args.some((arg) => /^--(reveal|output|o|profile|url|context|token-stdin)\b|^-o/.test(arg)))
    return false;
  const [command = "", subcommand = "", key = ""] = operandsOf(args);
  if (!Object.hasOwn(showing, command) || args[0] !== command) return false;
  if (command === "webhook" && subcommand === "deliveries") return /^(list|)$/.test(key);
  if (command === "config" && subcommand === "get") return key !== "" && !secretKey.test(key);
  return showing[command]?.test(subcommand) === true;
}

/** Behind `--`, or as the value of another option, `--help` is a text like any other. */
function asksOnlyHelp(args: readonly string[]): boolean {
  return (
    args.every((arg) => !arg.startsWith("-") || /^(--help|-h|--version)$/.test(arg)) &&
    args.some((arg) => arg.startsWith("-"))
  );
}

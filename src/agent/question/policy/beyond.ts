/** Programs that act beyond the workspace: on the machine, other machines, databases, containers and clouds. */
import { changesService, isService } from "./own-commands.ts";
import {
  type Administration,
  type Call,
  destroying,
  operandsOf,
  secretWord,
  valuesOfOption,
} from "./program.ts";
import type { Risk } from "./risk.ts";
import { shells } from "./starters.ts";
import { hasAny, isConstant } from "./words.ts";

/** As a word without a dash, `help` may be the name of a task, a package or a host. */
export const asksHelp = /^(--version|--help|-V|-h|-version)$/;

/** Returns the risk of a call that acts beyond the workspace: its words may show that it destroys something. */
export function riskOf({ args }: Call, risk: Risk): Risk {
  if (args.some((arg) => destroying.test(arg))) return "destructive";
  // Tests and tasks may be named after anything.
  if (risk === "task") return risk;
  return args.some((arg) => secretWord.test(arg)) ? "sensitive" : risk;
}

/** To programs such as `shutdown`, -h means something else. */
const isOnlyHelp = ({ args }: Call, risk: Risk): boolean =>
  args.length === 1 && (risk === "destructive" ? /^--(help|version)$/ : asksHelp).test(args[0] ?? "");

/** Asks about a program that acts beyond the workspace, and about what its words name. */
export function act(call: Call, reason: string, risk: Risk): void {
  const { name, args } = call;
  if (isOnlyHelp(call, risk)) return;
  call.ask(`${name} ${reason}`, riskOf(call, risk));
  const further = furtherRisk(call);
  if (further) call.ask(`${name} ${further[0]}`, further[1]);
  if (name.startsWith("mkfs") && args.some((arg) => arg.startsWith("/dev/")))
    call.deny(`${name} would erase a disk`);
  for (const arg of args) {
    if (name === "dd" && arg.startsWith("of=")) call.write(arg.slice(3));
    if (/^(truncate|shred|wipefs)$/.test(name) && !arg.startsWith("-")) call.write(arg);
    call.read(hasAny(arg) ? "" : arg);
  }
  startedByWords(call);
}

const databases =
  /^(psql|pgcli|mysql|mariadb|mongosh|mongo|redis-cli|valkey-cli|sqlcmd|cqlsh|clickhouse(-client)?|duckdb)$/;
const deployers =
  /^(terraform|tofu|terragrunt|pulumi|ansible|ansible-playbook|helm|kustomize|argocd|vercel|netlify|wrangler|fly|flyctl|firebase|railway|supabase|twine)$/;

/** What the words of a program add to its own risk. */
function furtherRisk({ name, args, input }: Call): readonly [reason: string, risk: Risk] | undefined {
  if (name === "kill" && args.some((arg, index) => /^(-1|0)$/.test(arg) && (index > 0 || arg === "0")))
    return ["ends every process that it may", "destructive"];
  const runsFile = (arg: string) =>
    /^(-f|--file|--eval|-i|--init)(=|$)|\.(sql|js|lua)$|\\[!iog]|(^|[\s;])(system|source|program)\s/.test(
      arg,
    );
  if (databases.test(name) && (input !== undefined || args.some(runsFile)))
    return ["runs statements from elsewhere, or other programs", "code"];
  if (deployers.test(name)) return ["applies files that may change between two calls", "applying"];
  return undefined;
}

/** Programs that start others named in their words: the first of those that asks reports too. */
export function startedByWords(call: Call): void {
  const starts = /^(rm|mv|cp|find|eval|tee|xargs|dd|mkfs.*|sudo)$/;
  const service = call.args.findIndex(isService);
  if (service !== -1) return changesService(call, call.args.slice(service + 1));
  const at = call.args.findIndex((arg) => starts.test(arg) || shells.has(arg) || isStarterOfCode(arg));
  if (at !== -1) call.run(call.args.slice(at));
}

const isStarterOfCode = (word: string): boolean => /^(python[\d.]*|node|perl|ruby)$/.test(word);

/** Asks about a program that administers something, unless its words only read. */
export function administer(call: Call, { looks, reason, risk }: Administration): void {
  const [operand] = operandsOf(call.args);
  if (operand === undefined && call.args.every(isConstant)) return;
  if (
    looks.test(operand ?? "") &&
    call.args.every(isConstant) &&
    !call.args.some((arg) => secretWord.test(arg))
  )
    return;
  act(call, reason, risk);
  if (/^(build|push|buildx|compose|apply|replace|patch)$/.test(operand ?? ""))
    call.ask(`${call.name} ${operand} applies files that may change between two calls`, "applying");
  for (const folder of mountedFolders(call.args)) {
    call.readTree(folder);
    if (folder.startsWith("/dev/") || folder.endsWith("docker.sock"))
      call.ask(`${call.name} gives a container the machine itself`, "destructive");
  }
  if (call.args.some((arg) => /^--(privileged|pid=host|device)/.test(arg)))
    call.ask(`${call.name} gives a container the machine itself`, "destructive");
}

/** Returns the folders of this machine that a container gets: `-v FOLDER:/x`, `--mount type=bind,src=FOLDER`. */
function mountedFolders(args: readonly string[]): readonly string[] {
  const named = valuesOfOption(args, "v", ["--volume"]).map((value) => value.split(":")[0] ?? "");
  const bound = valuesOfOption(args, "", ["--mount"]).flatMap(
    (value) => /(?:^|,)(?:src|source)=([^,]*)/.exec(value)?.[1] ?? [],
  );
  return [...named, ...bound].filter((folder) => /^[./~]/.test(folder) || hasAny(folder));
}

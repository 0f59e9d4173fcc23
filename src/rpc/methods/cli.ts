/** The method that runs a command of this program. */
import type { RpcGroup } from "../connection/contract.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import { loadConfig } from "../../config/config.ts";
import { hideSecrets } from "../../config/secrets/values.ts";
import { runCommand } from "../../exec/process-group.ts";
import { notStarted } from "../../agent/commands/run-shell.ts";
import { OutputExcerpt } from "../../exec/output-excerpt.ts";
import { ownProgram } from "../../base/system/own-program.ts";
import type { RpcContext } from "../deps.ts";
import { excerptOf } from "../../base/text.ts";

const MAX_CHARACTERS = 48_000;
/** Of the output; enough for secrets that a cut at the shown length would halve to be found whole. */
const MAX_BYTES = 1_048_576;

export const cliMethods: RpcGroup<"cli.exec", RpcContext> = {
  "cli.exec": async ({ params, ctx: { deps, peer }, signal }) => {
    const { cliExec } = deps.settings;
    if (cliExec === "off") throw new ServiceError("disabled", "cli.exec is switched off here.");
    if (cliExec === "local" && !peer.isLocal) {
      throw new ServiceError(
        "blocked",
        "cli.exec works from this machine only. Run agentd where the server runs.",
      );
    }
    const { argv, timeout } = params;
    if (argv.some((word) => word.includes("\0"))) {
      throw new ServiceError("bad_argv", "The words of a command line must not hold NUL.", { param: "argv" });
    }
    const hint = blockedBecause(argv);
    if (hint !== undefined) return { blocked: true, hint, code: -1, output: "" };
    const output = new OutputExcerpt(MAX_BYTES);
    const end = await runCommand(`exec ${[...ownProgram(), ...argv].map(quoted).join(" ")}`, {
      cwd: deps.agent.deps.settings.workspace,
      env: environment(deps.config),
      timeoutMs: timeout * 1000,
      onOutput: (bytes) => output.push(bytes),
      signal,
    }).catch(notStarted);
    if (end.stoppedBy === "timeout") {
      throw new ServiceError(
        "command_timed_out",
        `The command took longer than ${timeout} seconds and was ended.`,
      );
    }
    // The command may have read, or written, secrets that were not there when this process began.
    await learnSecrets(deps.config);
    return {
      blocked: false,
      code: end.exitCode ?? -1,
      output: excerptOf(redact(output.text()), MAX_CHARACTERS),
    };
  },
};

async function learnSecrets(from: RpcContext["deps"]["config"]): Promise<void> {
  const loaded = await loadConfig(from).catch(() => undefined);
  // A file that cannot be read told the command nothing either.
  if (loaded) hideSecrets(loaded);
}

/** Commands that talk with a person, or serve: nobody could end them here. */
const BLOCKED: Readonly<Record<string, string>> = {
  setup: "It asks questions. Run `agentd setup` in a terminal.",
  gateway: "It runs the service. Start it in a terminal or as a unit.",
  rpc: "It serves standard input, which there is none of here.",
  acp: "It serves standard input, which there is none of here.",
  chat: "It is a terminal program. Run `agentd chat` in a terminal.",
  backup: "It copies your keys. Run `agentd backup` in a terminal of the machine.",
  "sessions browse": "It is a terminal program. `agentd sessions list` prints the sessions.",
  "config edit": "It opens an editor. Use `agentd config set`.",
};

/** Undefined for what may run. */
function blockedBecause(argv: readonly string[]): string | undefined {
  if (argv.some((word) => /^--reveal(?:=|$)/.test(word))) {
    return "It prints secrets. Run it in a terminal of the machine.";
  }
  const [command, sub] = argv.filter((word) => !word.startsWith("-"));
  if (command === undefined) {
    const isAsking = argv.length > 0 && argv.every((word) => ["--help", "-h", "--version"].includes(word));
    return isAsking ? undefined : "Name a command, such as `sessions list`.";
  }
  return BLOCKED[command] ?? BLOCKED[`${command} ${sub ?? ""}`];
}

/** Of the same home as this process, whatever the profile was called. */
function environment({ env, home }: RpcContext["deps"]["config"]): Record<string, string> {
  const kept = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[0] !== "AGENTD_PROFILE",
  );
  return { ...Object.fromEntries(kept), AGENTD_HOME: home, NO_COLOR: "1", TERM: "dumb" };
}

/** As a word of a POSIX shell. */
const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

/** Runs a command of this program. */
import type { RpcGroup, RpcContext } from "../deps.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import { loadConfig } from "../../config/config.ts";
import { hideSecrets } from "../../config/secrets/values.ts";
import { runCommand } from "../../exec/process-group.ts";
import { notStarted } from "../../agent/commands/quick.ts";
import { OutputExcerpt } from "../../exec/output.ts";
import { ownProgram } from "../../base/system/own-program.ts";
import { excerptOf } from "../../base/text.ts";

const MAX_CHARACTERS = 48_000;
/** Greater than what is shown, so that redaction sees secrets whole that the cut would split. */
const MAX_BYTES = 1_048_576;

export const cliMethods: RpcGroup<"cli.exec", RpcContext> = {
  "cli.exec": async ({ params, ctx: { deps, peer }, signal }) => {
    const { cliExec } = deps.settings;
    if (cliExec === "off") throw new ServiceError("disabled", "cli.exec is disabled on this server.");
    if (cliExec === "local" && !peer.isLocal) {
      throw new ServiceError("blocked", "cli.exec works only from this machine. Run agentd on the server.");
    }
    const { argv, timeout } = params;
    if (argv.some((word) => word.includes("\0"))) {
      throw new ServiceError("bad_argv", "Arguments must not contain NUL.", { param: "argv" });
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
        `The command took longer than ${timeout} seconds and was stopped.`,
      );
    }
    // The command may have read or written secrets that did not exist when this process started.
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
  // If the file cannot be read here, the command could not read it either.
  if (loaded) hideSecrets(loaded);
}

/** Commands that are interactive or do not end. */
const BLOCKED: Readonly<Record<string, string>> = {
  setup: "It is interactive. Run `agentd setup` in a terminal.",
  gateway: "It runs the service. Start it in a terminal or as a system service.",
  rpc: "It serves standard input, which cli.exec does not provide.",
  acp: "It serves standard input, which cli.exec does not provide.",
  chat: "It is interactive. Run `agentd chat` in a terminal.",
  backup: "It copies your keys. Run `agentd backup` in a terminal on the server.",
  "sessions browse": "It is interactive. `agentd sessions list` prints the sessions.",
  "config edit": "It opens an editor. Use `agentd config set`.",
};

/** Returns why a command may not run; undefined when it may. */
function blockedBecause(argv: readonly string[]): string | undefined {
  if (argv.some((word) => /^--reveal(?:=|$)/.test(word))) {
    return "It prints secrets. Run it in a terminal on the server.";
  }
  const [command, sub] = argv.filter((word) => !word.startsWith("-"));
  if (command === undefined) {
    const isAsking = argv.length > 0 && argv.every((word) => ["--help", "-h", "--version"].includes(word));
    return isAsking ? undefined : "Name a command, such as `sessions list`.";
  }
  return BLOCKED[command] ?? BLOCKED[`${command} ${sub ?? ""}`];
}

/** Returns the environment for the same home as this process, whatever profile selected it. */
function environment({ env, home }: RpcContext["deps"]["config"]): Record<string, string> {
  const kept = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[0] !== "AGENTD_PROFILE",
  );
  return { ...Object.fromEntries(kept), AGENTD_HOME: home, NO_COLOR: "1", TERM: "dumb" };
}

/** Quotes a word for a POSIX shell. */
const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

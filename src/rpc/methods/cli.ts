/** Runs commands: of this program, and of the user's shell. */
import type { RpcGroup, RpcContext } from "../deps.ts";
import { isOpenTo } from "../connection/ready.ts";
import { callerCwd, namedSession } from "../session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { loadConfig } from "../../config/config.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import { commandEnvironment, runCommand } from "../../exec/process-group.ts";
import { notStarted } from "../../agent/agent.ts";
import { OutputExcerpt } from "../../exec/output.ts";
import { ownProgram } from "../../base/system/machine.ts";
import { excerptOf } from "../../base/text.ts";

const MAX_CHARACTERS = 48_000;
/** Greater than what is shown, so that redaction sees secrets whole that the cut would split. */
const MAX_BYTES = 1_048_576;

export const cliMethods: RpcGroup<"cli.exec" | "shell.exec", RpcContext> = {
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

  "shell.exec": async ({ params: { command, timeout, session_id: id }, ctx, signal }) => {
    const session = await namedSession(ctx, id);
    const cwd = callerCwd(ctx, session);
    if (command.trim() === "" || command.includes("\0")) {
      throw new ServiceError("empty_command", "The command must not be empty or contain NUL.", {
        param: "command",
      });
    }
    await checkShell(ctx, command, { cwd, sessionId: session?.row?.id });
    const output = new OutputExcerpt(MAX_BYTES);
    const end = await runCommand(command, {
      cwd,
      env: { ...commandEnvironment([], {}, ctx.deps.config.env), PWD: cwd },
      timeoutMs: timeout * 1000,
      onOutput: (bytes) => output.push(bytes),
      signal,
    }).catch(notStarted);
    if (end.stoppedBy === "timeout") {
      throw new ServiceError(
        "shell_timed_out",
        `The command took longer than ${timeout} seconds and was stopped.`,
      );
    }
    const stdout = excerptOf(redact(output.text()), MAX_CHARACTERS);
    return { stdout, stderr: "", code: end.exitCode ?? -1 };
  },
};

/** Refuses what the policy would not let the agent's terminal do without approval. ServiceError `disabled`, `blocked`. */
async function checkShell(
  { deps, peer }: RpcContext,
  command: string,
  at: { readonly cwd: string; readonly sessionId: string | undefined },
): Promise<void> {
  const { shellExec } = deps.settings;
  if (shellExec === "off") {
    throw new ServiceError(
      "disabled",
      "shell.exec is disabled on this server. Set gateway.shell_exec to local.",
    );
  }
  if (!isOpenTo(shellExec, peer)) {
    throw new ServiceError("blocked", "shell.exec works only from the machine of the server.");
  }
  const { outcome, reason } = await deps.agent.reviewCommand(command, at);
  if (outcome === "allow") return;
  throw new ServiceError("blocked", `The command is not run: ${redact(reason)}. Run it in a terminal.`);
}

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

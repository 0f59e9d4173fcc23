/** `agentd acp --check` and `--setup`. */
import process from "node:process";
import { runCommand } from "citty";
import packageFile from "../../../package.json" with { type: "json" };
import { DEMO_MODEL, formatModel } from "../../agent/model.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { currentContext } from "../kit/context.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, warn } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

/** Prints in one line whether an editor can use this program: loads everything that a session needs. Exits with 1 if a session could not start. */
export async function check(): Promise<void> {
  const { isReady, line } = await load();
  if (!isReady) process.exitCode = EXIT_FAILURE;
  print(redact(`agentd ${packageFile.version} is ${isReady ? "ready" : "not ready"}: ${oneLine(line)}`));
}

interface CheckResult {
  readonly isReady: boolean;
  /** The model that answers, or the problem and what to do. */
  readonly line: string;
}

async function load(): Promise<CheckResult> {
  try {
    const [{ openHome, openHomeStore }, { startRpcFromHome }, { missingProvider }] = await Promise.all([
      import("../../app/home.ts"),
      import("../../app/start.ts"),
      import("../../acp/session/open.ts"),
      import("../../acp/methods.ts"),
    ]);
    const home = await openHome(currentContext());
    const service = await startRpcFromHome(home, await openHomeStore(home));
    const { models } = service.agent.deps;
    const missing = missingProvider(models);
    await service.stop();
    return { isReady: missing === undefined, line: missing ?? describe(formatModel(models.default)) };
  } catch (error) {
    if (error instanceof ServiceError) return { isReady: false, line: error.message };
    throw error;
  }
}

function describe(model: string): string {
  if (model !== formatModel(DEMO_MODEL)) return `${model} is configured (test it with \`agentd model test\`)`;
  return "the built-in demo model answers (set up a real one with `agentd setup`)";
}

/** Joins the lines of an error list. */
function oneLine(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "").join(" ");
}

/** Runs the setup, which editors open in a terminal. Exits with 0 if a provider is set up, otherwise with 1. */
export async function setUp(): Promise<void> {
  try {
    await runCommand((await import("../setup/setup.ts")).setupCommand, { rawArgs: [] });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    warn(`${error.message} These are options of \`agentd setup\`.`);
    process.exitCode = EXIT_FAILURE;
  }
}

/** A test message of the command line, through a target of its own. */
import packageFile from "../../../package.json" with { type: "json" };
import { waitAtMost, systemClock } from "../../base/time.ts";
import { hostname } from "node:os";
import process from "node:process";
import { ServiceError } from "../../base/errors.ts";
import { createLog } from "../../base/observe.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import type { PlatformName } from "../../config/platform-settings.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import { platformState, type PlatformState } from "../../deliver/platform/platforms.ts";
import { greeting, sendTrial, type TrialMessage, type TrialResult } from "../../deliver/platform/trial.ts";
import type { Target } from "../../deliver/target.ts";
import { currentContext } from "../kit/context.ts";
import { warn } from "../kit/output.ts";
import { oneLine } from "../sessions/text.ts";
import { findDatabase } from "../kit/database.ts";

export interface CliTrialMessage extends Omit<TrialMessage, "text"> {
  readonly platform: PlatformName;
  /** Undefined: a greeting. */
  readonly text: string | undefined;
}

interface TrialOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called with the address before anything is sent; empty for none. */
  readonly onSend: (address: string) => void;
}

interface Trial extends Omit<TrialResult, "tookMs"> {
  readonly platform: PlatformName;
  readonly took_ms: number;
}

const CLOSE_MS = 2_000;

/**
 * Sends the message. Throws ServiceError `invalid_config`, without sending, for a platform that is disabled or not
 * configured.
 */
export async function testPlatform(message: CliTrialMessage, options: TrialOptions): Promise<Trial> {
  const { home, env: processEnv } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  const { env } = loaded;
  hideSecrets(loaded);
  const { openStore } = await import("../../store/open.ts");
  const database = await findDatabase();
  // Holds the leases of platforms that allow one connection. Without a database no service has ever run, so no lease is held.
  const store = await openStore({ url: database.exists ? database.url : ":memory:" });
  try {
    const log = createLog("warn", (line) => warn(line.trimEnd()));
    const parts = { clock: systemClock, log, version: packageFile.version, agentHome: home, env, store };
    const state = await platformState(message.platform, config, parts);
    if (state.status !== "ready") throw notReady(message.platform, state);
    return await sendThrough(state.target, message, options);
  } finally {
    await store.close();
  }
}

async function sendThrough(
  target: Target,
  { platform, ...message }: CliTrialMessage,
  options: TrialOptions,
): Promise<Trial> {
  const { text = greeting(hostname(), Date.now()) } = message;
  try {
    const { tookMs, ...result } = await sendTrial(
      target,
      { ...message, text },
      { ...options, clock: systemClock },
    );
    return { platform, ...result, took_ms: tookMs };
  } finally {
    await waitAtMost(systemClock, CLOSE_MS, Promise.resolve(target.close?.()));
  }
}

function notReady(
  name: PlatformName,
  state: Exclude<PlatformState, { readonly status: "ready" }>,
): ServiceError {
  const hint =
    state.status === "disabled"
      ? `is disabled: set platforms.${name}.enabled to true.`
      : `is not configured: set ${state.missing.join(" and ")}, or run \`agentd gateway setup --platform ${name}\`.`;
  return new ServiceError("invalid_config", `${name} ${hint} Nothing was sent.`);
}

/** Returns a signal that aborts at Ctrl-C, which no longer ends the process. */
export function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  // The listener stays: signal-exit would end the process when it finds no other listener.
  process.on("SIGINT", () => interrupted.abort());
  return interrupted.signal;
}

export function trialIsGood({ outcome }: Trial): boolean {
  return outcome === "delivered";
}

/** Returns the result and what to do. */
export function trialText({ platform, outcome, error = "", took_ms: tookMs }: Trial): string {
  const said = oneLine(error);
  switch (outcome) {
    case "delivered":
      return `Delivered in ${tookMs} ms.`;
    case "retry":
      return `Not delivered: ${said}\nIt may work later: the outbox would retry it.`;
    case "unknown":
      return `Unknown: ${said}\nCheck whether the message arrived. It is not sent again.`;
    case "permanent":
      return `Refused: ${said}`;
    case "busy":
      return `Not sent: ${platform} allows one connection, which another process has. Stop \`agentd gateway\` first.`;
    case "stopped":
    case "lost":
      return "Stopped. The message may have been sent.";
  }
}

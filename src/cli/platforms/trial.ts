/** A test message through a platform, without the outbox. */
import process from "node:process";
import { ServiceError } from "../../base/errors.ts";
import { AgentApiError, type PlatformTest, type TestPlatformBody } from "../../client/http.ts";
import type { PlatformName } from "../../config/platform-settings.ts";
import { formatTarget, platforms as traits } from "../../deliver/target.ts";
import { withApi } from "../kit/api.ts";
import { warn } from "../kit/output.ts";
import { oneLine } from "../sessions/text.ts";

export interface Trial extends PlatformTest {
  readonly platform: PlatformName;
}

/** Exit code of a program that Ctrl-C ended, as shells expect. */
const EXIT_INTERRUPTED = 130;

/** Sends the message. ServiceError `platform_not_ready`, without sending, for a platform that is off or not configured. */
export async function testPlatform(platform: PlatformName, body: TestPlatformBody): Promise<Trial> {
  const stop = () => {
    warn("Stopped. The message may have been sent.");
    process.exit(EXIT_INTERRUPTED);
  };
  process.once("SIGINT", stop);
  try {
    const result = await withApi(async ({ client }) => {
      return (await client.testPlatform({ path: { platform }, body })).data;
    });
    return { platform, ...result };
  } catch (error) {
    throw error instanceof ServiceError ? notReady(error, platform) : error;
  } finally {
    process.off("SIGINT", stop);
  }
}

/** Returns the error with what to do. */
function notReady(error: ServiceError, platform: PlatformName): ServiceError {
  const { cause } = error;
  const details = cause instanceof AgentApiError ? cause.details : undefined;
  const { status, missing = [] } = (details ?? {}) as { status?: string; missing?: readonly string[] };
  if (error.code !== "platform_not_ready" || status === "off") return error;
  const what = `${platform} is not configured: set ${missing.join(" and ")}, or run \`agentd gateway setup --platform ${platform}\`. Nothing was sent.`;
  return new ServiceError(error.code, what, { cause });
}

export function trialIsGood({ outcome }: Trial): boolean {
  return outcome === "delivered";
}

/** Returns the result and what to do. */
export function trialText(trial: Trial): string {
  const { platform, outcome, address, took_ms: tookMs } = trial;
  const said = oneLine(trial.error ?? "");
  switch (outcome) {
    case "delivered":
      return `Delivered to ${oneLine(formatTarget({ platform, address }))} in ${tookMs} ms.`;
    case "retry":
      return `Not delivered: ${said}\nIt may work later: the outbox would retry it.`;
    case "unknown":
      return `Unknown: ${said}\nCheck whether the message arrived. It is not sent again.`;
    case "permanent":
      return `Refused: ${said}${address === "" && traits[platform].address !== "none" ? NO_CHAT : ""}`;
    case "busy":
      return `Not sent: ${platform} allows one connection, which another process has. Stop \`agentd gateway\` first.`;
    case "stopped":
    case "lost":
      return "Stopped. The message may have been sent.";
  }
}

const NO_CHAT = "\nNo chat was given, and no home channel is set.";

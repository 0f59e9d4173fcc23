import { FetchFailedError } from "../../../base/net/fetch.ts";
import { BlockedAddressError, UnresolvedNameError } from "../../../base/net/guard.ts";
import { ToolError } from "../../tool/tool.ts";

/** The setting with the hosts that the tools may reach although they are not public. */
export const PRIVATE_HOSTS_HINT = "If it is meant to be reached, add it to web.allowed_private_hosts.";

const remedies: Readonly<Record<FetchFailedError["reason"], string>> = {
  url: "Give a whole http or https address.",
  connection: "Check the address, or try again later.",
  timeout: "Try again later, or another address.",
  redirect: "Give the address it should end at.",
  body: "Try again, or another address.",
};

/** What went wrong on the way to a server, as the model reads it; anything else is passed on as it is. */
export function toWebError(error: unknown): unknown {
  if (error instanceof BlockedAddressError) return new ToolError(error.message);
  if (error instanceof UnresolvedNameError) return new ToolError(`${error.message} Check its spelling.`);
  if (error instanceof FetchFailedError) {
    const text = `${error.message} ${remedies[error.reason]}`;
    return new ToolError(text, error.reason === "timeout" ? { code: "timed_out" } : {});
  }
  return error;
}

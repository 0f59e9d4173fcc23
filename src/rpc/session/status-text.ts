import type { SessionState } from "../../../generated/gateway/types/types.gen.ts";

/** How a session stands, in lines for people. */
export function statusText(state: SessionState): string {
  return [
    `Session   ${state.session_id}`,
    `Title     ${state.title === "" ? "(none)" : state.title}`,
    `Model     ${state.model} (${state.provider})`,
    `Directory ${state.cwd}`,
    `State     ${state.running ? "running" : "idle"}, ${state.queue_length} queued, ${state.pending_requests} open questions`,
    `Created   ${new Date(state.created_at * 1000).toISOString()}`,
    `Active    ${new Date(state.last_active * 1000).toISOString()}`,
    `Tokens    ${state.usage.total}`,
  ].join("\n");
}

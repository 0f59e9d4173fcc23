/**
 * The id under which a client knows a tool call: live and in a replay the same. Providers number their calls anew in each
 * turn, so the run stands before it.
 */
export function toolCallIdOf(runId: string, callId: string): string {
  return `${runId}:${callId}`;
}

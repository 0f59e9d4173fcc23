/** What a host is to do after a slash command, and the prompt that comes back of it. */
import type { Directive as Shown } from "../../../generated/gateway/types/types.gen.ts";
import type { Directive } from "../../agent/commands/command.ts";
import type { RpcPeer } from "../connection/peer.ts";

/** A message that a host was told to submit in another way than prompts usually are. */
interface Sent {
  /** Undefined: the command was about no session. */
  readonly sessionId: string | undefined;
  readonly message: string;
  readonly whenBusy: "queue";
}

/** The newest of each connection. */
const sent = new WeakMap<RpcPeer, Sent>();

/** The directive as the spec has it. `session_id` tells a host that it is to go on in another session. */
export function showDirective(
  done: Directive,
  { peer, sessionId }: { readonly peer: RpcPeer; readonly sessionId: string | undefined },
): Shown {
  if (done.type === "exec") {
    const { type, output, sessionId: other } = done;
    return { type, output, ...(other === undefined ? {} : { session_id: other }) };
  }
  if (done.type !== "send" || done.whenBusy === undefined) return done;
  const { whenBusy, ...rest } = done;
  sent.set(peer, { sessionId, message: done.message, whenBusy });
  return { ...rest, when_busy: whenBusy };
}

/**
 * What becomes, while a turn is at work, of a prompt that says nothing of it: hosts exist that submit the message of a
 * directive and do not know its `when_busy`. Undefined for a prompt that no directive asked for.
 */
export function takeSentMode(
  peer: RpcPeer,
  prompt: { readonly sessionId: string; readonly text: unknown },
): "queue" | undefined {
  const last = sent.get(peer);
  sent.delete(peer);
  if (!last || last.message !== prompt.text) return undefined;
  return (last.sessionId ?? prompt.sessionId) === prompt.sessionId ? last.whenBusy : undefined;
}

/** What people do with an earlier message: continue from it elsewhere, or send it again in other words. */
import { itemsOf } from "../../client/conversation/reduce.ts";
import type { AssistantItem, ChatState, TranscriptItem, UserItem } from "../../client/conversation/state.ts";
import { navigate } from "../router.ts";
import { call } from "../state/gateway.ts";
import type { Conversation } from "./conversations.ts";

type Message = UserItem | AssistantItem;

/** Opens a new session with the messages up to an answer, and with it. */
export async function forkAt(conversation: Conversation, item: AssistantItem): Promise<void> {
  const target = { session_id: sessionIdOf(conversation), message_id: await messageIdOf(conversation, item) };
  const { session_id: id } = await call("session.branch", target);
  navigate(`/chat/${encodeURIComponent(id)}`);
}

/** Puts a prompt into the composer: what is sent next replaces it, and everything after it. */
export async function editPrompt(conversation: Conversation, item: UserItem): Promise<void> {
  const messageId = await messageIdOf(conversation, item);
  conversation.edited.update(() => ({ messageId, text: item.text }));
}

/** Items that appeared while the page was open have no id of the session: what it stores is asked for. */
async function messageIdOf(conversation: Conversation, item: Message): Promise<string> {
  if (item.id.startsWith("msg_")) return item.id;
  const { messages } = await call("session.history", { session_id: sessionIdOf(conversation) });
  const id = storedItem(conversation.state.get(), item, messages.flatMap(itemsOf))?.id;
  if (id === undefined) throw new Error("The session no longer has this message. Reload the page.");
  return id;
}

function sessionIdOf({ state }: Conversation): string {
  const { session } = state.get();
  if (session === undefined) throw new Error("The session is not open yet.");
  return session.id;
}

/** Returns the stored item that a shown one is: of equal ones, the one as far from the end. */
export function storedItem(
  { settled, live }: Pick<ChatState, "settled" | "live">,
  item: Message,
  stored: readonly TranscriptItem[],
): TranscriptItem | undefined {
  const isSame = (each: TranscriptItem) => each.kind === item.kind && each.text === item.text;
  const shown = [...settled, ...live].filter(isSame);
  const at = shown.findIndex(({ id }) => id === item.id);
  return at < 0 ? undefined : stored.filter(isSame).at(at - shown.length);
}

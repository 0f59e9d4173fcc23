/** What the parts of a message need of their conversation. */
import { createContext } from "preact";
import type { AssistantItem, UserItem } from "../../client/conversation/state.ts";

export interface MessageActions {
  readonly sessionId: string | undefined;
  /** Opens a new session with the messages up to this one. Absent: the key may not. */
  readonly fork?: (item: AssistantItem) => void;
  /** Puts a prompt back into the composer, to be sent in place of it and of what followed. */
  readonly edit?: (item: UserItem) => void;
}

export const MessageContext = createContext<MessageActions | undefined>(undefined);

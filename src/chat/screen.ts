/**
 * The interface between the chat and its screen: the screen shows a {@link ChatState} and calls {@link ChatActions}.
 */
import type { ChatActions } from "../client/conversation/actions.ts";
import type { ChatStore } from "../client/conversation/state.ts";

export interface ChatScreen {
  readonly store: ChatStore;
  readonly actions: ChatActions;
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** Whether to use colours (`NO_COLOR`, `--no-color`). */
  readonly hasColour: boolean;
  /** Whether the terminal's background is light. */
  readonly isLight?: boolean;
  /** Ctrl-G: opens text in the user's editor, which takes over the terminal. Absent: the key does nothing. */
  readonly editText?: (text: string) => Promise<string>;
  /** Ends the screen. */
  readonly signal: AbortSignal;
}

/**
 * Shows the chat until `signal` aborts: `renderChat` of `view/render-chat.ts`. Resolves when the terminal is restored;
 * rejects only if the terminal cannot be used.
 */
export type RenderChat = (screen: ChatScreen) => Promise<void>;

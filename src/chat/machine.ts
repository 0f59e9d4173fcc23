/** What the chat needs of the machine it runs on; the CLI implements it. */
export interface ChatMachine {
  /** Earlier prompts of all chats, oldest first, each once. */
  readonly loadHistory: () => Promise<readonly string[]>;
  /** Keeps a prompt for later chats, unless it contains a secret. */
  readonly keepPrompt: (text: string) => Promise<void>;
  /** Puts text into the clipboard. Resolves to false when this machine has no program for it. */
  readonly copy: (text: string) => Promise<boolean>;
  /** Writes a new file, relative to the current folder, and returns its path. Rejects when the file exists. */
  readonly writeNewFile: (path: string, text: string) => Promise<string>;
  /** Opens text in the user's editor; resolves to the edited text. The editor takes over the terminal. */
  readonly editText: (text: string) => Promise<string>;
}

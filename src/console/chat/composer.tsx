/** Where messages are written: drafts, commands with completion, what waits behind the turn, and its end. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { PromptFile, SubmitMode } from "../../client/conversation/actions.ts";
import { parseSlash } from "../../client/conversation/slash.ts";
import type { Completion } from "../../client/conversation/state.ts";
import { navigate } from "../router.ts";
import { keepDraft, readDraft } from "../state/drafts.ts";
import { connection } from "../state/gateway.ts";
import { messageOf } from "../state/session.ts";
import { useStore } from "../state/store.ts";
import { Button, Icon, IconButton } from "../ui/controls.tsx";
import { say } from "../ui/dialog.tsx";
import { compactCount } from "../ui/format.ts";
import { lazy } from "../ui/lazy.tsx";
import { NEW, type Conversation } from "./conversations.ts";
import { loadAttachments } from "./load-attachments.ts";

const ChosenFiles = lazy(async () => (await loadAttachments()).ChosenFiles);

const KEEP_AFTER_MS = 200;
/** Commands of the terminal that have a page here. */
const PAGES: Readonly<Record<string, string>> = {
  new: `/chat/${NEW}`,
  sessions: "/sessions",
  resume: "/sessions",
};

interface ComposerProps {
  readonly conversation: Conversation;
}

export function Composer({ conversation }: ComposerProps): JSX.Element {
  const { chat, state, key, edited: editedStore } = conversation;
  const edited = useStore(editedStore, (value) => value);
  const draftKey = useStore(key, (value) => value);
  const turn = useStore(state, (all) => all.turn);
  const input = useRef<HTMLTextAreaElement>(null);
  const { text, setText } = useDraft(conversation, draftKey);
  const menu = useCompletions(conversation, text, setText);
  const { send, isEmpty, canSteer } = useSend(conversation, { text, setText, input });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || menu.onKeyDown(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send(event.altKey && turn ? "steer" : undefined);
    }
    if (event.key === "Escape" && turn) chat.interrupt();
  };
  return (
    <form
      class="composer"
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Queue conversation={conversation} />
      {edited ? (
        <Edited
          onCancel={() => {
            editedStore.update(() => undefined);
            setText("");
          }}
        />
      ) : null}
      <div class="composer-box">
        {menu.list}
        <Chosen conversation={conversation} />
        <textarea
          ref={input}
          rows={1}
          aria-label="Message"
          placeholder={turn ? "Add to what the agent does, or ask next" : "Message the agent, / for commands"}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={(event) => {
            const pasted = [...(event.clipboardData?.files ?? [])];
            if (pasted.length === 0) return;
            event.preventDefault();
            void attachFiles(conversation, pasted);
          }}
        />
        <div class="composer-row">
          <AttachButton conversation={conversation} />
          <Undo conversation={conversation} />
          <Status conversation={conversation} />
          <span class="grow" />
          <SendButtons
            conversation={conversation}
            isEmpty={isEmpty}
            canSteer={canSteer}
            onSteer={() => send("steer")}
          />
        </div>
      </div>
    </form>
  );
}

interface Writing {
  readonly text: string;
  readonly setText: (text: string) => void;
  readonly input: { readonly current: HTMLTextAreaElement | null };
}

/** Sends what is written, with its files, in place of the prompt that is edited. */
function useSend({ chat, files: fileStore, edited: editedStore }: Conversation, writing: Writing) {
  const { text, setText, input } = writing;
  const files = useStore(fileStore, (value) => value);
  const edited = useStore(editedStore, (value) => value);
  const isPlain = files.length === 0 && !edited;
  const isEmpty = text.trim() === "" && files.length === 0;
  useEffect(() => {
    if (!edited) return;
    setText(edited.text);
    input.current?.focus();
  }, [edited]);
  const send = (mode?: SubmitMode) => {
    if (isEmpty) return;
    const page = isPlain ? pageOf(text) : undefined;
    setText("");
    if (page !== undefined) return navigate(page);
    chat.submit(text, mode, {
      ...(files.length === 0 ? {} : { files }),
      ...(edited ? { replaces: edited.messageId } : {}),
    });
    fileStore.update(() => []);
    editedStore.update(() => undefined);
    input.current?.focus();
  };
  return { send, isEmpty, canSteer: isPlain && !isEmpty };
}

function Chosen({ conversation: { files: store } }: ComposerProps): JSX.Element | null {
  const files = useStore(store, (value) => value);
  if (files.length === 0) return null;
  const remove = (file: PromptFile) => store.update((all) => all.filter((each) => each !== file));
  return <ChosenFiles files={files} onRemove={remove} />;
}

/** Reads files and adds them to the next prompt. Says what is wrong with those that cannot be sent. */
export async function attachFiles(
  { files: store }: Pick<Conversation, "files">,
  chosen: readonly File[],
): Promise<void> {
  try {
    const { readFiles } = await import("./files.ts");
    const { files, problems } = await readFiles(chosen, store.get());
    store.update((all) => [...all, ...files]);
    for (const problem of problems) say(problem, "error");
  } catch (error) {
    say(messageOf(error), "error");
  }
}

function AttachButton({ conversation }: ComposerProps): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        class="sr-only"
        type="file"
        multiple
        tabIndex={-1}
        aria-label="Files for the message"
        onChange={({ currentTarget }) => {
          const chosen = [...(currentTarget.files ?? [])];
          // The same file may be chosen again later.
          currentTarget.value = "";
          void attachFiles(conversation, chosen);
        }}
      />
      <IconButton
        icon="attach"
        label="Attach files (or paste or drop them)"
        onClick={() => input.current?.click()}
      />
    </>
  );
}

/** Removes the last prompt and its answer; its text comes back into the composer. */
function Undo({ conversation: { chat, state } }: ComposerProps): JSX.Element | null {
  const canUndo = useStore(
    state,
    ({ turn, settled, live }) => !turn && [...settled, ...live].some(({ kind }) => kind === "user"),
  );
  if (!canUndo) return null;
  return <IconButton icon="undo" label="Undo the last prompt" onClick={chat.editLast} />;
}

interface SendProps extends ComposerProps {
  readonly isEmpty: boolean;
  readonly canSteer: boolean;
  readonly onSteer: () => void;
}

function SendButtons({ conversation, isEmpty, canSteer, onSteer }: SendProps): JSX.Element {
  const { chat, state } = conversation;
  const turn = useStore(state, (all) => all.turn);
  const isOffline = useStore(connection, ({ kind }) => kind !== "open");
  return (
    <>
      {isOffline ? (
        <span class="dim composer-offline">
          <Icon name="offline" /> kept, sent on return
        </span>
      ) : null}
      {turn && canSteer ? (
        <Button look="quiet" icon="steer" onClick={onSteer} title="Alt+Enter">
          Steer
        </Button>
      ) : null}
      {turn ? (
        <Button look="danger" icon="stop" isBusy={turn.isInterrupting} onClick={() => chat.interrupt()}>
          Stop
        </Button>
      ) : null}
      <IconButton
        type="submit"
        icon="enter"
        look="primary"
        label={turn ? "Queue behind this turn" : "Send"}
        disabled={isEmpty}
      />
    </>
  );
}

function Edited({ onCancel }: { readonly onCancel: () => void }): JSX.Element {
  return (
    <p class="composer-edited">
      <Icon name="edit" /> What you send replaces this prompt and everything after it.
      <Button look="quiet" onClick={onCancel}>
        Cancel
      </Button>
    </p>
  );
}

function pageOf(text: string): string | undefined {
  const command = parseSlash(text);
  if (!command) return undefined;
  if (command.name === "resume" && command.args !== "") return `/chat/${encodeURIComponent(command.args)}`;
  return command.args === "" ? PAGES[command.name] : undefined;
}

/** The text of a session's composer, kept in the browser. The gateway may also put text there, such as after `/undo`. */
function useDraft({ state }: Conversation, key: string) {
  const [text, setText] = useState(() => readDraft(key));
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => setText(readDraft(key)), [key]);
  useEffect(() => {
    const timer = setTimeout(() => keepDraft(key, text), text === "" ? 0 : KEEP_AFTER_MS);
    return () => clearTimeout(timer);
  }, [key, text]);
  useEffect(() => {
    const keep = () => keepDraft(key, latest.current);
    globalThis.addEventListener("pagehide", keep);
    return () => {
      globalThis.removeEventListener("pagehide", keep);
      keep();
    };
  }, [key]);
  const prefill = useStore(state, ({ composer }) => composer.prefill);
  const taken = useRef(prefill?.serial);
  useEffect(() => {
    if (!prefill || prefill.serial === taken.current) return;
    taken.current = prefill.serial;
    const { text: filled, replaces } = prefill;
    setText((now) => (replaces === undefined ? filled : now.replace(replaces, () => filled)));
  }, [prefill]);
  return { text, setText };
}

/** Completions of commands, files and models, as a list above the text. */
function useCompletions({ chat, state }: Conversation, text: string, setText: (text: string) => void) {
  const { completions, completionsFor } = useStore(state, ({ composer }) => composer);
  const [at, setAt] = useState(0);
  const [closedFor, setClosedFor] = useState<string>();
  useEffect(() => {
    setAt(0);
    chat.edit(text);
  }, [chat, text]);
  const isOpen = completions.length > 0 && completionsFor === text && closedFor !== text && text !== "";
  const take = (completion: Completion) =>
    setText(completion.text.endsWith("/") ? completion.text : `${completion.text} `);
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (!isOpen) return false;
    const chosen = completions[at];
    const isWhole = chosen?.text === text.trim();
    if (event.key === "ArrowDown") setAt((at + 1) % completions.length);
    else if (event.key === "ArrowUp") setAt((at - 1 + completions.length) % completions.length);
    else if (event.key === "Escape") setClosedFor(text);
    else if (chosen && (event.key === "Tab" || (event.key === "Enter" && !isWhole))) take(chosen);
    else return false;
    event.preventDefault();
    return true;
  };
  const list = isOpen ? (
    <ul class="completions" role="listbox" aria-label="Completions">
      {completions.map((completion, index) => (
        <li key={completion.text} role="option" aria-selected={index === at}>
          <button type="button" tabIndex={-1} onClick={() => take(completion)}>
            <b>{completion.display}</b>
            <span class="dim">{completion.meta}</span>
          </button>
        </li>
      ))}
    </ul>
  ) : null;
  return { list, onKeyDown };
}

/** Messages that wait behind the running turn. */
function Queue({ conversation: { state } }: ComposerProps): JSX.Element | null {
  const queue = useStore(state, (all) => all.queue);
  if (queue.length === 0) return null;
  return (
    <ol class="queue" aria-label="Waiting behind this turn">
      {queue.map(({ turnId, preview }) => (
        <li key={turnId}>
          <Icon name="clock" /> <span>{preview}</span>
        </li>
      ))}
    </ol>
  );
}

/** Which model answers, how full its context is, and what the session costs. */
function Status({ conversation: { state } }: ComposerProps): JSX.Element {
  const { model, provider, contextPercent, totalTokens, isYolo, mode } = useStore(
    state,
    ({ status }) => status,
  );
  const name = provider === "" || model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
  return (
    <span class="composer-status">
      <span title="Model">{name}</span>
      {contextPercent === undefined ? null : (
        <span title="Context in use">{`context ${Math.round(contextPercent)} %`}</span>
      )}
      {totalTokens > 0 ? (
        <span title="Tokens of this session">{`${compactCount(totalTokens)} tokens`}</span>
      ) : null}
      {isYolo ? <span class="tone-warn">approvals are off</span> : mode ? <span>{mode}</span> : null}
    </span>
  );
}

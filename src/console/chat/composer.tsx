/** Where messages are written: drafts, commands with completion, what waits behind the turn, and its end. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { SubmitMode } from "../../client/conversation/actions.ts";
import { parseSlash } from "../../client/conversation/slash.ts";
import type { Completion } from "../../client/conversation/state.ts";
import { navigate } from "../router.ts";
import { keepDraft, readDraft } from "../state/drafts.ts";
import { connection } from "../state/gateway.ts";
import { useStore } from "../state/store.ts";
import { Button, Icon, IconButton } from "../ui/controls.tsx";
import { compactCount } from "../ui/format.ts";
import { NEW, type Conversation } from "./conversations.ts";

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
  const { chat, state, key } = conversation;
  const draftKey = useStore(key, (value) => value);
  const turn = useStore(state, (all) => all.turn);
  const isOffline = useStore(connection, ({ kind }) => kind !== "open");
  const input = useRef<HTMLTextAreaElement>(null);
  const { text, setText } = useDraft(conversation, draftKey);
  const menu = useCompletions(conversation, text, setText);
  const send = (mode?: SubmitMode) => {
    if (text.trim() === "") return;
    const page = pageOf(text);
    setText("");
    if (page !== undefined) return navigate(page);
    chat.submit(text, mode);
    input.current?.focus();
  };
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
      <div class="composer-box">
        {menu.list}
        <textarea
          ref={input}
          rows={1}
          aria-label="Message"
          placeholder={turn ? "Add to what the agent does, or ask next" : "Message the agent, / for commands"}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <div class="composer-row">
          <Status conversation={conversation} />
          <span class="grow" />
          {isOffline ? (
            <span class="dim composer-offline">
              <Icon name="offline" /> kept, sent on return
            </span>
          ) : null}
          {turn && text.trim() !== "" ? (
            <Button look="quiet" icon="steer" onClick={() => send("steer")} title="Alt+Enter">
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
            disabled={text.trim() === ""}
          />
        </div>
      </div>
    </form>
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

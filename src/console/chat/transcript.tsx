/** The conversation: settled items in windows, what still changes, questions, and messages that wait to be sent. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ChatState, TranscriptItem } from "../../client/conversation/state.ts";
import { pending } from "../state/drafts.ts";
import { connection } from "../state/gateway.ts";
import { useCan } from "../state/me.ts";
import { useStore } from "../state/store.ts";
import { Button, Icon, Loading } from "../ui/controls.tsx";
import { attempt } from "../ui/dialog.tsx";
import { lazy } from "../ui/lazy.tsx";
import { Windows } from "../ui/windows.tsx";
import type { Conversation } from "./conversations.ts";
import { Item } from "./items.tsx";
import { MessageContext, type MessageActions } from "./message-context.ts";

const QuestionCard = lazy(() => import("./question.tsx").then((code) => code.QuestionCard));

/** This near to the end, the end is followed. */
const NEAR_END_PX = 60;

export function Transcript({
  conversation,
  welcome,
}: {
  readonly conversation: Conversation;
  readonly welcome: JSX.Element;
}): JSX.Element {
  const { state, chat } = conversation;
  const view = useStore(state, (all) => all);
  const canAnswer = useCan("approvals");
  const scroller = useRef<HTMLDivElement>(null);
  const { isAtEnd, onScroll, toEnd } = useEnd(scroller, view);
  const beforeLoad = useKeptPlace(scroller, view.older?.before);
  const { settled, live, questions, turn, session } = view;
  const isEmpty = settled.length + live.length === 0;
  const actions = useMessageActions(conversation, session?.id);
  return (
    <div class={`transcript-frame ${turn ? "transcript-busy" : ""}`}>
      <div
        class="transcript"
        ref={scroller}
        tabIndex={0}
        role="log"
        aria-label="Conversation"
        aria-live="off"
        onScroll={onScroll}
      >
        <div class="column">
          {session === undefined ? <Loading label="Opening the session" /> : null}
          {session !== undefined && isEmpty && !turn ? welcome : null}
          {view.older ? (
            <Older
              {...view.older}
              onLoad={() => {
                beforeLoad();
                chat.loadOlder();
              }}
              scroller={scroller}
            />
          ) : null}
          <MessageContext.Provider value={actions}>
            <Windows items={settled} start={view.dropped} draw={drawItem} scroller={scroller} />
            {live.map(drawItem)}
          </MessageContext.Provider>
          {turn && live.length === 0 && questions.length === 0 ? <Working activity={turn.activity} /> : null}
          {questions.map((question) => (
            <QuestionCard
              key={question.id}
              question={question}
              isReadOnly={!canAnswer}
              onAnswer={(answer) => chat.answer(question.id, answer)}
            />
          ))}
          <Unsent sessionId={session?.id} />
        </div>
      </div>
      {isAtEnd ? null : (
        <Button look="plain" icon="toBottom" onClick={toEnd}>
          Newest
        </Button>
      )}
      <Announcer view={view} />
    </div>
  );
}

function useMessageActions(conversation: Conversation, sessionId: string | undefined): MessageActions {
  const load = () => import("./message-actions.ts");
  return useMemo(
    () => ({
      sessionId,
      fork: (item) => attempt(async () => (await load()).forkAt(conversation, item)),
      edit: (item) => attempt(async () => (await load()).editPrompt(conversation, item)),
    }),
    [conversation, sessionId],
  );
}

interface OlderProps {
  readonly isLoading: boolean;
  /** The position that the next page ends at. */
  readonly before: string;
  readonly onLoad: () => void;
  readonly scroller: { readonly current: HTMLElement | null };
}

/** Loads older messages when the reader comes near to the first one. */
function Older({ isLoading, before, onLoad, scroller }: OlderProps): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isLoading || !element.current) return undefined;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && onLoad(), {
      root: scroller.current,
      rootMargin: "600px 0px",
    });
    observer.observe(element.current);
    return () => observer.disconnect();
    // A page may come between two drawings, which then shows no loading.
  }, [isLoading, before]);
  return (
    <div class="older" ref={element}>
      {isLoading ? (
        <Loading label="Loading older messages" />
      ) : (
        <Button look="quiet" onClick={onLoad}>
          Older messages
        </Button>
      )}
    </div>
  );
}

function drawItem(item: TranscriptItem): JSX.Element {
  return <Item key={item.id} item={item} />;
}

/** Follows the end of the conversation until the reader scrolls up. */
function useEnd(scroller: { readonly current: HTMLElement | null }, view: ChatState) {
  const isFollowing = useRef(true);
  const [isAtEnd, setAtEnd] = useState(true);
  const toEnd = () => {
    const box = scroller.current;
    if (box) box.scrollTop = box.scrollHeight;
  };
  useLayoutEffect(() => {
    if (isFollowing.current) toEnd();
  }, [view.settled, view.live, view.questions]);
  useLayoutEffect(() => {
    isFollowing.current = true;
    toEnd();
  }, [view.generation, view.session?.id]);
  useEffect(() => {
    // Colours, pictures of windows and the on-screen keyboard change heights without a change of the state.
    const observer = new ResizeObserver(() => isFollowing.current && toEnd());
    const box = scroller.current;
    if (box?.firstElementChild) observer.observe(box.firstElementChild);
    if (box) observer.observe(box);
    return () => observer.disconnect();
  }, []);
  const onScroll = () => {
    const box = scroller.current;
    if (!box) return;
    isFollowing.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
    setAtEnd(isFollowing.current);
  };
  return { isAtEnd, onScroll, toEnd };
}

/**
 * Keeps what is read in its place when older messages come before it. Browsers do so themselves, but not at the very beginning,
 * and Safari never. Returns what to call before they are loaded.
 */
function useKeptPlace(
  scroller: { readonly current: HTMLElement | null },
  before: string | undefined,
): () => void {
  const height = useRef<number>(undefined);
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box || height.current === undefined) return;
    const grown = box.scrollHeight - height.current;
    if (box.scrollTop === 0 || !CSS.supports("overflow-anchor", "auto")) box.scrollTop += grown;
    height.current = undefined;
  }, [before]);
  return () => {
    height.current = scroller.current?.scrollHeight;
  };
}

function Working({ activity }: { readonly activity: string }): JSX.Element {
  return (
    <p class="working">
      <span class="spinner" aria-hidden="true" />
      {activity || "Working…"}
    </p>
  );
}

/** Messages that the gateway has not confirmed, once that takes longer than usual. */
function Unsent({ sessionId }: { readonly sessionId: string | undefined }): JSX.Element | null {
  const isOpen = useStore(connection, ({ kind }) => kind === "open");
  const all = useStore(pending, (messages) => messages);
  const mine = all.filter((message) => message.sessionId === sessionId);
  if (isOpen || mine.length === 0) return null;
  return (
    <>
      {mine.map(({ id, text }) => (
        <article key={id} class="message message-user message-unsent">
          <h2 class="sr-only">You, not sent yet</h2>
          <p class="message-text">{text}</p>
          <p class="message-origin">
            <Icon name="offline" /> Kept here, sent when the gateway answers
          </p>
        </article>
      ))}
    </>
  );
}

/** Reads answers to screen readers by sentence: a word at a time could not be followed. */
function Announcer({ view: { live, settled, questions, turn } }: { readonly view: ChatState }): JSX.Element {
  const last = live.at(-1) ?? settled.at(-1);
  const isAnswer = last?.kind === "assistant";
  const text = isAnswer ? last.text : "";
  const whole = turn && isAnswer ? text.slice(0, lastSentenceEnd(text)) : text;
  const said = useRef({ id: "", length: 0 });
  const [sentence, setSentence] = useState("");
  useEffect(() => {
    if (!turn && said.current.id === "") {
      // What was there when the page opened is not read out.
      said.current = { id: last?.id ?? "none", length: whole.length };
      return;
    }
    if (last && said.current.id !== last.id) said.current = { id: last.id, length: 0 };
    const news = whole.slice(said.current.length);
    said.current.length = whole.length;
    if (news.trim() !== "") setSentence(news);
  }, [whole, last?.id]);
  return (
    <div class="sr-only" aria-live="polite">
      <p>{sentence}</p>
      {questions.length > 0 ? <p>The agent asks a question and waits for your answer.</p> : null}
    </div>
  );
}

function lastSentenceEnd(text: string): number {
  return (
    Math.max(text.lastIndexOf(". "), text.lastIndexOf("\n"), text.lastIndexOf("? "), text.lastIndexOf("! ")) +
    1
  );
}

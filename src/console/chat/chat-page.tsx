/** The chat: the list of sessions beside the open one. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { cleanLine } from "../../client/conversation/clean-text.ts";
import type { ChatState } from "../../client/conversation/state.ts";
import { navigate, type PageProps } from "../router.ts";
import { useCan } from "../state/me.ts";
import { useStore } from "../state/store.ts";
import { lazy } from "../ui/lazy.tsx";
import { Button, Empty, IconButton, PageHeader, Problem, Snippet } from "../ui/controls.tsx";
import { attachFiles, Composer } from "./composer.tsx";
import { NEW, openConversation, type Conversation } from "./conversations.ts";
import { SessionList, useSessions } from "./session-list.tsx";
import { Transcript } from "./transcript.tsx";

const LAST = "agentd.lastSession";

export function ChatPage(props: PageProps): JSX.Element {
  return useCan("chat") ? <Chat {...props} /> : <ReadOnly {...props} />;
}

/** What a key sees that may read and not chat. */
const ReadOnly = lazy(() => import("./read-only.tsx").then((code) => code.ReadOnlyChat));

const Viewer = lazy(() => import("./viewer.tsx").then((code) => code.Viewer));

function Chat({ params }: PageProps): JSX.Element {
  const wanted = params["session"] ?? localStorage.getItem(LAST) ?? NEW;
  const conversation = useConversation(wanted);
  const key = useStore(conversation.key, (value) => value);
  useEffect(() => {
    if (key !== NEW) localStorage.setItem(LAST, key);
    if (params["session"] !== key) navigate(`/chat/${encodeURIComponent(key)}`, { replace: true });
  }, [key, params["session"]]);
  const [isListOpen, setListOpen] = useState(false);
  return (
    <div class={`chat ${isListOpen ? "chat-list-open" : ""}`}>
      <SessionList current={key} onPick={() => setListOpen(false)} />
      <OpenSession
        key={conversation.chat}
        conversation={conversation}
        onList={() => setListOpen(!isListOpen)}
      />
    </div>
  );
}

/** Returns the conversation of an address. A new one stays the same when it gets its address. */
function useConversation(wanted: string): Conversation {
  const held = useRef<{ wanted: string; conversation: Conversation } | undefined>(undefined);
  const before = held.current;
  if (before?.wanted === wanted) return before.conversation;
  const isSame = before?.conversation.key.get() === wanted;
  const conversation = isSame ? before.conversation : openConversation(wanted);
  held.current = { wanted, conversation };
  return conversation;
}

function OpenSession({
  conversation,
  onList,
}: {
  readonly conversation: Conversation;
  readonly onList: () => void;
}): JSX.Element {
  const problem = useStore(conversation.problem, (text) => text);
  const title = useTitle(conversation);
  const status = useStore(conversation.state, (all) => all.status);
  const hasViewer = useStore(conversation.state, ({ viewer, picker }) => Boolean(viewer ?? picker));
  return (
    <section
      class="chat-open"
      aria-label="Session"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        // Without this, the browser would leave the page for the file.
        event.preventDefault();
        const dropped = [...(event.dataTransfer?.files ?? [])];
        if (dropped.length > 0) void attachFiles(conversation, dropped);
      }}
    >
      <PageHeader title={title}>
        <span class="only-narrow">
          <IconButton icon="sessions" label="Sessions" onClick={onList} />
        </span>
        <span class="only-narrow">
          <IconButton icon="plus" label="New conversation" onClick={() => navigate(`/chat/${NEW}`)} />
        </span>
      </PageHeader>
      {problem ? (
        <div class="chat-problem">
          <Problem message={problem} onRetry={conversation.retry} />
          <p>
            <a href={`/chat/${NEW}`}>Start a new conversation</a>
          </p>
        </div>
      ) : (
        <Transcript
          conversation={conversation}
          welcome={<Welcome provider={status.provider} onPick={(text) => conversation.chat.submit(text)} />}
        />
      )}
      {problem ? null : <Composer conversation={conversation} />}
      {hasViewer ? <Viewer conversation={conversation} /> : null}
    </section>
  );
}

/** Until it has a title, a session is called by its first prompt, as in the list beside it. */
function useTitle({ key, state }: Conversation): string {
  const id = useStore(key, (value) => value);
  const title = useStore(state, ({ session }) => session?.title ?? "");
  const prompt = useStore(state, firstPrompt);
  const row = useSessions().items.find((session) => session.id === id);
  const called = title || row?.title || prompt || row?.preview;
  return called || (id === NEW ? "New conversation" : "Session");
}

const MAX_TITLE = 120;

function firstPrompt({ settled, live, older }: ChatState): string {
  // What is loaded may begin in the middle.
  if (older) return "";
  const first = settled.find(({ kind }) => kind === "user") ?? live.find(({ kind }) => kind === "user");
  return first?.kind === "user" ? cleanLine(first.text, MAX_TITLE) : "";
}

const DEMO_PROMPTS = ["run: date", "Show me a table of three planets", "What can you do?"];
const PROMPTS = ["What is in this folder?", "Explain this project", "What can you do?"];

function Welcome({
  provider,
  onPick,
}: {
  readonly provider: string;
  readonly onPick: (text: string) => void;
}): JSX.Element {
  const isDemo = provider === "demo";
  return (
    <Empty icon="chat" title="What should the agent do?">
      <ul class="suggestions">
        {(isDemo ? DEMO_PROMPTS : PROMPTS).map((text) => (
          <li key={text}>
            <Button onClick={() => onPick(text)}>{text}</Button>
          </li>
        ))}
      </ul>
      {isDemo ? (
        <div class="welcome-demo">
          <p class="dim">
            No model is configured, so the built-in demo answers. Connect a real one in a terminal:
          </p>
          <Snippet text="agentd setup" label="Command" />
        </div>
      ) : null}
    </Empty>
  );
}

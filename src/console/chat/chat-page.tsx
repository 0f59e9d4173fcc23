/** The chat: the list of sessions beside the open one. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../../client/http.ts";
import { navigate, type PageProps } from "../router.ts";
import { useCan } from "../state/me.ts";
import { useList } from "../state/resources.ts";
import { useStore } from "../state/store.ts";
import { Button, Empty, Icon, IconButton, PageHeader, Problem, Snippet, Time } from "../ui/controls.tsx";
import { Composer } from "./composer.tsx";
import { NEW, openConversation, type Conversation } from "./conversations.ts";
import { Transcript } from "./transcript.tsx";
import { Viewer } from "./viewer.tsx";

const LAST = "agentd.lastSession";

export function ChatPage(props: PageProps): JSX.Element {
  return useCan("chat") ? <Chat {...props} /> : <NoChat />;
}

function NoChat(): JSX.Element {
  return (
    <>
      <PageHeader title="Chat" />
      <Empty icon="lock" title="This key may not chat">
        <p>It lacks the scope chat. Sign in with another key, or look at the runs.</p>
        <a href="/runs">Runs</a>
      </Empty>
    </>
  );
}

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
  const title = useStore(conversation.state, ({ session }) => session?.title ?? "");
  const status = useStore(conversation.state, (all) => all.status);
  return (
    <section class="chat-open" aria-label="Session">
      <PageHeader title={title || "New conversation"}>
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
      <Viewer conversation={conversation} />
    </section>
  );
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

function SessionList({
  current,
  onPick,
}: {
  readonly current: string;
  readonly onPick: () => void;
}): JSX.Element {
  const { items, status, problem, hasMore, loadMore, reload } = useList<Session>("/v1/sessions", {}, [
    "session",
    "run",
  ]);
  return (
    <aside class="session-list" aria-label="Sessions">
      <Button
        icon="plus"
        onClick={() => {
          onPick();
          navigate(`/chat/${NEW}`);
        }}
      >
        New conversation
      </Button>
      {status === "failed" ? <Problem message={problem} onRetry={reload} /> : null}
      <ul>
        {items.map((session) => (
          <li key={session.id}>
            <a
              href={`/chat/${encodeURIComponent(session.id)}`}
              aria-current={session.id === current ? "page" : undefined}
              onClick={onPick}
            >
              <span class="session-title">
                <SourceIcon source={session.source} />
                <span>{session.title || session.preview || "Untitled"}</span>
              </span>
              <span class="session-meta">
                <SessionStatus status={session.status} />
                <Time at={session.updated_at} />
              </span>
            </a>
          </li>
        ))}
      </ul>
      {status === "ready" && items.length === 0 ? <p class="dim">Conversations appear here.</p> : null}
      {hasMore ? (
        <Button look="quiet" onClick={loadMore}>
          Older
        </Button>
      ) : null}
    </aside>
  );
}

function SourceIcon({ source }: { readonly source: string }): JSX.Element | null {
  if (source === "cron") return <Icon name="schedule" />;
  if (source === "webhook") return <Icon name="webhooks" />;
  return null;
}

export function SessionStatus({ status }: { readonly status: Session["status"] }): JSX.Element | null {
  if (status === "running") return <span class="tone-busy">running</span>;
  if (status === "waiting") return <span class="tone-warn">waits for you</span>;
  return null;
}

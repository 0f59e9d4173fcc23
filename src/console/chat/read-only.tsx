/** A conversation for a key that may read and not chat: the stored messages, read over HTTP. */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { TranscriptItem } from "../../client/conversation/state.ts";
import type { Session, SessionMessage } from "../../client/http.ts";
import type { PageProps } from "../router.ts";
import { useItem, useList } from "../state/resources.ts";
import { Button, Empty, IconButton, Loading, PageHeader, Problem } from "../ui/controls.tsx";
import { SessionList } from "./session-list.tsx";
import { Item } from "./items.tsx";
import { MessageContext } from "./message-context.ts";
import { itemsOf } from "./stored-items.ts";

export function ReadOnlyChat({ params }: PageProps): JSX.Element {
  const [isListOpen, setListOpen] = useState(false);
  const id = params["session"];
  const toggle = () => setListOpen(!isListOpen);
  return (
    <div class={`chat ${isListOpen ? "chat-list-open" : ""}`}>
      <SessionList current={id ?? ""} onPick={() => setListOpen(false)} />
      <section class="chat-open" aria-label="Session">
        {id === undefined || id === "new" ? (
          <>
            <Header title="Chat" onList={toggle} />
            <Empty icon="chat" title="Choose a session">
              <p>This key may read conversations. To write, it needs the scope chat.</p>
            </Empty>
          </>
        ) : (
          <Messages key={id} id={id} onList={toggle} />
        )}
      </section>
    </div>
  );
}

function Header({ title, onList }: { readonly title: string; readonly onList: () => void }): JSX.Element {
  return (
    <PageHeader title={title}>
      <span class="only-narrow">
        <IconButton icon="sessions" label="Sessions" onClick={onList} />
      </span>
    </PageHeader>
  );
}

type Row = SessionMessage & { readonly id: string };

interface MessagesProps {
  readonly id: string;
  readonly onList: () => void;
}

function Messages({ id, onList }: MessagesProps): JSX.Element {
  const address = `/v1/sessions/${encodeURIComponent(id)}`;
  const { item: session } = useItem<Session>(address, ["session", "run"]);
  const list = useList<Row>(
    `${address}/messages`,
    { include: "tool_results" },
    ["session", "run"],
    ({ sequence }) => String(sequence),
  );
  const items = useMemo(() => itemsOf(list.items.toReversed()), [list.items]);
  const context = useMemo(() => ({ sessionId: id }), [id]);
  return (
    <>
      <Header title={session?.title || session?.preview || "Session"} onList={onList} />
      <div class="transcript-frame">
        <div class="transcript" tabIndex={0} role="log" aria-label="Conversation" aria-live="off">
          <div class="column">
            {list.status === "loading" ? <Loading /> : null}
            {list.problem ? <Problem message={list.problem} onRetry={list.reload} /> : null}
            {list.hasMore ? (
              <Button look="quiet" isBusy={list.isLoadingMore} onClick={list.loadMore}>
                Older messages
              </Button>
            ) : null}
            <MessageContext.Provider value={context}>
              {items.map((item: TranscriptItem) => (
                <Item key={item.id} item={item} />
              ))}
            </MessageContext.Provider>
            {session?.status === "running" ? <p class="working">The agent is working…</p> : null}
          </div>
        </div>
      </div>
      <p class="dim composer-none">This key may read this conversation. To write, it needs the scope chat.</p>
    </>
  );
}

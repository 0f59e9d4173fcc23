/** The sessions beside the open one. */
import type { JSX } from "preact";
import type { Session } from "../../client/http.ts";
import { navigate } from "../router.ts";
import { useCan } from "../state/me.ts";
import { useList, type ListView } from "../state/resources.ts";
import { Button, Icon, Problem, Time } from "../ui/controls.tsx";
import { NEW } from "./conversations.ts";

/** The sessions, last used first. */
export function useSessions(): ListView<Session> {
  return useList<Session>("/v1/sessions", {}, ["session", "run"]);
}

export function SessionList({
  current,
  onPick,
}: {
  readonly current: string;
  readonly onPick: () => void;
}): JSX.Element {
  const { items, status, problem, hasMore, loadMore, reload } = useSessions();
  const canChat = useCan("chat");
  return (
    <aside class="session-list" aria-label="Sessions">
      {canChat ? (
        <Button
          icon="plus"
          onClick={() => {
            onPick();
            navigate(`/chat/${NEW}`);
          }}
        >
          New conversation
        </Button>
      ) : null}
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

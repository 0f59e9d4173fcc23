/** One message: its attempts, its text, and what to do next. */
import type { JSX } from "preact";
import type { Message, MessageStatus } from "../../../client/http.ts";
import type { PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { useItem } from "../../state/resources.ts";
import { Copy, Icon, Loading, PageHeader, Problem, Time } from "../../ui/controls.tsx";
import { absoluteTime, duration } from "../../ui/format.ts";
import { Facts } from "../../ui/table.tsx";
import { MessageActions, MessageBadge, messageHref, Origin, OutcomeBadge } from "./message-parts.tsx";

const BACK = { href: "/outbox", label: "The outbox" };

/** What to do next on this page; the API's own hints name its operations. */
const HINTS: Readonly<Partial<Record<MessageStatus, string>>> = {
  dead: "All attempts failed. Mend what the error names, then retry.",
  unknown: "It may have arrived: look there before you send it again.",
};

export function MessagePage({ params }: PageProps): JSX.Element {
  const id = params["id"] ?? "";
  const canSend = useCan("messages");
  const address = `/v1/outbox/${encodeURIComponent(id)}`;
  const {
    item: message,
    status,
    problem,
    reload,
  } = useItem<Message>(canSend ? `${address}?include=text` : address, "message", id);
  if (!message) {
    return (
      <>
        <PageHeader title="Message" back={BACK} />
        <div class="page-body">
          {status === "failed" ? <Problem message={problem} onRetry={reload} /> : <Loading />}
        </div>
      </>
    );
  }
  const { last_error: error } = message;
  const hint = HINTS[message.status];
  return (
    <>
      <PageHeader title={`To ${message.target}`} back={BACK} aside={<MessageBadge status={message.status} />}>
        {canSend ? <MessageActions message={message} /> : null}
      </PageHeader>
      <div class="page-body">
        {error !== null && message.status !== "delivered" ? <Problem message={error} /> : null}
        {hint === undefined ? null : (
          <p class="outbox-hint">
            <Icon name="info" />
            {hint}
          </p>
        )}
        <MessageFacts message={message} />
        <Attempts message={message} />
        <Text message={message} canRead={canSend} />
      </div>
    </>
  );
}

function MessageFacts({ message }: { readonly message: Message }): JSX.Element {
  const { due_at: due, waits_for: waitsFor, parts_sent: parts, ended_at: ended } = message;
  return (
    <Facts
      facts={[
        ["Platform", message.platform],
        ["From", <Origin message={message} />],
        ["Created", <Time at={message.created_at} />],
        ["Next attempt", due === null ? null : <Time at={due} />],
        [
          "Waits for",
          waitsFor === null ? null : (
            <a href={messageHref({ id: waitsFor })}>an older message to this chat</a>
          ),
        ],
        ["Parts that arrived", parts === 0 ? null : parts],
        ["Ended", ended === null ? null : <Time at={ended} />],
        ["Message", message.id],
      ]}
    />
  );
}

function Attempts({ message }: { readonly message: Message }): JSX.Element {
  const log = message.attempt_log ?? [];
  return (
    <section class="outbox-section">
      <h2>Attempts</h2>
      {log.length === 0 ? <p class="dim">None has ended yet.</p> : null}
      <ol class="attempts">
        {log.map(({ started_at: start, ended_at: end, outcome, error }, index) => (
          <li key={index} class="attempts-item">
            <time dateTime={new Date(start * 1_000).toISOString()}>{absoluteTime(start)}</time>
            <OutcomeBadge outcome={outcome} />
            <span class="dim">{end === null ? "" : duration(end - start)}</span>
            {error === null ? null : <p class="outbox-error">{error}</p>}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Text({ message, canRead }: { readonly message: Message; readonly canRead: boolean }): JSX.Element {
  const { text } = message;
  return (
    <section class="outbox-section">
      <h2>Text</h2>
      {!canRead ? (
        <p class="dim">Your key may not read texts: it lacks the scope messages.</p>
      ) : text === null ? (
        <p class="dim">The text is no longer kept.</p>
      ) : (
        <div class="webhook-text">
          <Copy text={text} />
          <pre class="output" tabIndex={0} aria-label="Text">
            {text}
          </pre>
        </div>
      )}
    </section>
  );
}

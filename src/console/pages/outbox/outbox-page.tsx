/** Messages to chats, mailboxes and other places: what waits, what failed for good, and all of it again. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type {
  BulkResult,
  DetailedHealth,
  Message,
  MessageStatus,
  RetryMessagesData,
} from "../../../client/http.ts";
import { setQuery, type PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { refreshTopic, useItem, useList } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Button, Empty, PageHeader, Snippet, Time } from "../../ui/controls.tsx";
import { attempt, Confirm, say } from "../../ui/dialog.tsx";
import { ChoiceFilter, Filters, WindowFilter, windowStart } from "../../ui/filters.tsx";
import { plural } from "../../ui/format.ts";
import { ListTable, type Column } from "../../ui/table.tsx";
import { MessageActions, MessageBadge, messageHref, Origin, STATUS } from "./message-parts.tsx";

const COLUMNS: readonly Column<Message>[] = [
  { name: "To", cell: ({ target }) => target },
  { name: "State", cell: ({ status }) => <MessageBadge status={status} /> },
  { name: "Message", isWide: true, cell: (message) => <What message={message} /> },
  { name: "Attempts", align: "end", cell: ({ attempts }) => attempts },
  { name: "From", cell: (message) => <Origin message={message} /> },
  { name: "Created", align: "end", cell: (message) => <Time at={message.created_at} /> },
];

function What({ message }: { readonly message: Message }): JSX.Element {
  const { text, last_error: error } = message;
  return (
    <div>
      {text === null ? null : <span>{text}</span>}
      {error === null ? null : <span class="outbox-error">{error}</span>}
      {text === null && error === null ? <span class="dim">–</span> : null}
    </div>
  );
}

export function OutboxPage({ query }: PageProps): JSX.Element {
  const canSend = useCan("messages");
  const filters = { status: query.get("state") ?? "", platform: query.get("platform") ?? "" };
  const from = windowStart(query.get("since"));
  const messages = useList<Message>(
    "/v1/outbox",
    { ...filters, from, ...(canSend ? { include: "text" } : {}) },
    ["message"],
  );
  const { item: health } = useItem<DetailedHealth>("/health/detailed", "message");
  const outbox = health?.outbox;
  return (
    <>
      <PageHeader title="Outbox">{canSend ? <RetryAll {...filters} outbox={outbox} /> : null}</PageHeader>
      <div class="page-body">
        <Counts outbox={outbox} state={filters.status} />
        <Filters>
          <ChoiceFilter name="platform" label="Platform" options={platformsOf(outbox, filters.platform)} />
          <WindowFilter name="since" label="Created" />
        </Filters>
        <ListTable
          label="Messages"
          list={messages}
          columns={COLUMNS}
          href={messageHref}
          isFiltered={filters.status !== "" || filters.platform !== "" || from !== undefined}
          {...(canSend ? { actions: (message: Message) => <MessageActions message={message} /> } : {})}
          empty={
            <Empty icon="outbox" title="No message yet">
              <p>
                Answers of jobs and webhooks appear here on their way to a chat or a mailbox. Send one to try
                it:
              </p>
              <Snippet label="Command" text="agentd platforms test log" />
            </Empty>
          }
        />
      </div>
    </>
  );
}

type OutboxHealth = NonNullable<DetailedHealth["outbox"]>;

const COUNTED = ["due", "sending", "dead", "unknown"] as const;
const OTHERS = ["delivered", "dropped"] as const satisfies readonly MessageStatus[];

interface CountsProps {
  readonly outbox: OutboxHealth | undefined;
  readonly state: string;
}

/** The states as filters, with how many messages are in those that are not over. */
function Counts({ outbox, state }: CountsProps): JSX.Element {
  const choice = (value: MessageStatus | "", word: string, count?: JSX.Element) => (
    <button
      key={value}
      type="button"
      class="tab"
      aria-pressed={state === value}
      onClick={() => setQuery({ state: value })}
    >
      {word}
      {count}
    </button>
  );
  return (
    <div class="tabs outbox-states" role="group" aria-label="State">
      {choice("", "All")}
      {COUNTED.map((status) =>
        choice(status, STATUS[status][1], <Count of={outbox?.[status]} status={status} />),
      )}
      {OTHERS.map((status) => choice(status, STATUS[status][1]))}
    </div>
  );
}

interface CountProps {
  readonly of: number | undefined;
  readonly status: MessageStatus;
}

/** Takes its room before the count is known: a button that moves between press and release loses the click. */
function Count({ of: count, status }: CountProps): JSX.Element {
  return <span class={`outbox-count outbox-count-${count ? status : "none"}`}>{count ?? <>&nbsp;</>}</span>;
}

function platformsOf(
  outbox: OutboxHealth | undefined,
  chosen: string,
): readonly (readonly [string, string])[] {
  const names = new Set([...Object.keys(outbox?.platforms ?? {}), ...(chosen === "" ? [] : [chosen])]);
  return [...names].toSorted().map((name) => [name, name]);
}

interface RetryAllProps {
  readonly status: string;
  readonly platform: string;
  readonly outbox: OutboxHealth | undefined;
}

/** Retries every dead message, or those of one platform, each once. */
function RetryAll({ status, platform, outbox }: RetryAllProps): JSX.Element | null {
  const [found, setFound] = useState<number>();
  const dead = platform === "" ? outbox?.dead : outbox?.platforms[platform]?.dead;
  if (status !== "dead" || !dead) return null;
  const body = { status: ["dead" as const], ...(platform === "" ? {} : { platform }) };
  const send = (dryRun: boolean) =>
    request<RetryMessagesData, BulkResult>({
      url: "/v1/outbox/retry",
      query: dryRun ? { dry_run: true } : {},
      body,
    });
  const where = platform === "" ? "" : ` on ${platform}`;
  return (
    <>
      <Button
        icon="refresh"
        look="primary"
        onClick={() => attempt(async () => setFound((await send(true)).matched))}
      >
        Retry all dead{where} ({dead})
      </Button>
      {found === undefined ? null : (
        <Confirm
          title={`Retry ${plural(found, "dead message")}${where}?`}
          action={`Retry ${plural(found, "message")}`}
          look="primary"
          onClose={() => setFound(undefined)}
          onConfirm={async () => {
            const { done, refused } = await send(false);
            refreshTopic("message");
            say(
              `${plural(done, "message")} will be sent again${refused.length > 0 ? `, ${refused.length} refused` : ""}.`,
            );
          }}
        >
          <p>
            Each is due now with new attempts, in the order in which they were made. What arrived is not sent
            again.
          </p>
        </Confirm>
      )}
    </>
  );
}

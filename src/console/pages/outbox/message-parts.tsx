/** What the pages of the outbox have in common: states in words, where a message comes from, and what to do with it. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type {
  DropMessageData,
  Message,
  MessageAttempt,
  MessageStatus,
  RetryMessageData,
} from "../../../client/http.ts";
import { refreshTopic } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Badge, Button, type Tone } from "../../ui/controls.tsx";
import { attempt, Confirm } from "../../ui/dialog.tsx";

export const STATUS: Readonly<Record<MessageStatus, readonly [Tone, string]>> = {
  due: ["busy", "waiting"],
  sending: ["busy", "sending"],
  delivered: ["good", "delivered"],
  dead: ["bad", "dead"],
  unknown: ["warn", "uncertain"],
  dropped: ["dim", "dropped"],
};

export function MessageBadge({ status }: { readonly status: MessageStatus }): JSX.Element {
  const [tone, word] = STATUS[status];
  return <Badge tone={tone}>{word}</Badge>;
}

const OUTCOME: Readonly<Record<MessageAttempt["outcome"], readonly [Tone, string]>> = {
  delivered: ["good", "delivered"],
  retry: ["warn", "failed, tried again"],
  permanent: ["bad", "refused for good"],
  unknown: ["warn", "may have arrived"],
  stopped: ["dim", "the service ended"],
  lost: ["dim", "its process ended"],
};

export function OutcomeBadge({ outcome }: Pick<MessageAttempt, "outcome">): JSX.Element {
  const [tone, word] = OUTCOME[outcome];
  return <Badge tone={tone}>{word}</Badge>;
}

/** The run, delivery or occurrence that made the message. */
export function Origin({ message }: { readonly message: Message }): JSX.Element {
  const { run_id: runId, delivery_id: deliveryId, occurrence_id: occurrenceId } = message;
  if (runId !== null) return <a href={`/runs/${encodeURIComponent(runId)}`}>a run</a>;
  if (deliveryId !== null)
    return <a href={`/webhooks/deliveries/${encodeURIComponent(deliveryId)}`}>a webhook delivery</a>;
  return <span class="dim">{occurrenceId === null ? "the API" : "a scheduled job"}</span>;
}

export function messageHref({ id }: Pick<Message, "id">): string {
  return `/outbox/${encodeURIComponent(id)}`;
}

/** Retry and Drop, where they are possible. */
export function MessageActions({ message }: { readonly message: Message }): JSX.Element | null {
  const { id, status } = message;
  const [isAsking, setAsking] = useState<"retry" | "drop">();
  const close = () => setAsking(undefined);
  if (status !== "dead" && status !== "unknown" && status !== "due") return null;
  return (
    <>
      <Button
        icon="refresh"
        onClick={() =>
          status === "unknown" ? setAsking("retry") : attempt(() => retry(id, false), "It is sent again.")
        }
      >
        {status === "due" ? "Send now" : "Retry"}
      </Button>
      <Button look="danger" onClick={() => setAsking("drop")}>
        Drop
      </Button>
      {isAsking === "retry" ? (
        <Confirm
          title="Send it again?"
          action="Send it again"
          onClose={close}
          onConfirm={() => retry(id, true)}
        >
          <p>This message may have arrived: the platform did not say. Sent again, it may arrive twice.</p>
        </Confirm>
      ) : null}
      {isAsking === "drop" ? (
        <Confirm
          title="Drop this message?"
          action="Drop"
          onClose={close}
          onConfirm={async () => {
            await request<DropMessageData, Message>({
              url: "/v1/outbox/{message_id}/drop",
              path: { message_id: id },
              method: "POST",
            });
            refreshTopic("message");
          }}
        >
          <p>It is never sent. It stays in the outbox, marked as dropped.</p>
        </Confirm>
      ) : null}
    </>
  );
}

async function retry(id: string, acceptsDuplicate: boolean): Promise<void> {
  await request<RetryMessageData, Message>({
    url: "/v1/outbox/{message_id}/retry",
    path: { message_id: id },
    body: acceptsDuplicate ? { accept_duplicate: true } : {},
  });
  refreshTopic("message");
}

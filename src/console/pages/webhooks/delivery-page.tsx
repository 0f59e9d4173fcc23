/** One delivery: what each stage decided, what came in, what it became, and how to send it again. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Delivery, ReplayDeliveryData, Route } from "../../../client/http.ts";
import { navigate, type PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { refreshTopic, useItem, useList } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Button, Copy, Loading, PageHeader, Problem, Time } from "../../ui/controls.tsx";
import { Confirm, say } from "../../ui/dialog.tsx";
import { Tabs } from "../../ui/filters.tsx";
import { duration } from "../../ui/format.ts";
import { Facts } from "../../ui/table.tsx";
import { curlOf } from "./curl.ts";
import { DeliveryBadge, deliveryHref, isUnverified, pretty, routeHref, Stages, stoppedAt } from "./parts.tsx";

const BACK = { href: "/webhooks/deliveries", label: "All deliveries" };

/** A delivery with its body and its prompt, if the key may read them. */
export function useDelivery(id: string) {
  const canReadBody = useCan("webhooks");
  const address = `/v1/webhooks/deliveries/${encodeURIComponent(id)}`;
  return useItem<Delivery>(canReadBody ? `${address}?include=payload,rendered` : address, "delivery", id);
}

export function DeliveryPage({ params, query }: PageProps): JSX.Element {
  const { item: delivery, status, problem, reload } = useDelivery(params["id"] ?? "");
  const canChange = useCan("webhooks");
  if (!delivery) {
    return (
      <>
        <PageHeader title="Delivery" back={BACK} />
        <div class="page-body">
          {status === "failed" ? <Problem message={problem} onRetry={reload} /> : <Loading />}
        </div>
      </>
    );
  }
  return (
    <>
      <PageHeader
        title={delivery.event || "Delivery"}
        back={BACK}
        aside={<DeliveryBadge status={delivery.status} />}
      >
        {canChange && !isUnverified(delivery) ? <Actions delivery={delivery} /> : null}
      </PageHeader>
      <div class="page-body">
        <Why delivery={delivery} />
        <DeliveryFacts delivery={delivery} />
        <Replays of={delivery.id} />
        {isUnverified(delivery) ? (
          <Stranger delivery={delivery} />
        ) : (
          <Content delivery={delivery} part={query.get("part") ?? "body"} canReadBody={canChange} />
        )}
      </div>
    </>
  );
}

function Why({ delivery }: { readonly delivery: Delivery }): JSX.Element {
  const { stages, reason, status } = delivery;
  const stopped = stoppedAt(stages);
  return (
    <section class="webhook-section" aria-label="Stages">
      {stopped ? (
        <h2>
          {status === "refused" ? "Refused" : status === "duplicate" ? "A duplicate" : "Ignored"} at the{" "}
          {stopped.stage} stage
        </h2>
      ) : (
        <h2>Every stage passed</h2>
      )}
      {reason === null || reason === stopped?.detail ? null : (
        <p class={stopped ? "webhook-reason" : "problem-line"}>{reason}</p>
      )}
      {stages ? <Stages stages={stages} /> : null}
    </section>
  );
}

function DeliveryFacts({ delivery }: { readonly delivery: Delivery }): JSX.Element {
  const {
    route,
    delivery_id: senderId,
    run_id: runId,
    message_id: messageId,
    replay_of: replayOf,
  } = delivery;
  const { created_at: created, ended_at: ended } = delivery;
  return (
    <Facts
      facts={[
        ["Route", <a href={routeHref(route)}>{route}</a>],
        ["Run", runId === null ? null : <a href={`/runs/${encodeURIComponent(runId)}`}>{runId}</a>],
        [
          "Message",
          messageId === null ? null : <a href={`/outbox/${encodeURIComponent(messageId)}`}>{messageId}</a>,
        ],
        ["Replay of", replayOf === null ? null : <a href={deliveryHref({ id: replayOf })}>{replayOf}</a>],
        ["Received", <Time at={created} />],
        ["Took", ended === null ? null : duration(ended - created)],
        ["The sender's id", senderId],
        ["Delivery", delivery.id],
      ]}
    />
  );
}

/** What was made of it later. Nothing while there is none. */
function Replays({ of }: { readonly of: string }): JSX.Element | null {
  const { items } = useList<Delivery>("/v1/webhooks/deliveries", { replay_of: of, limit: 20 }, ["delivery"]);
  if (items.length === 0) return null;
  return (
    <section class="webhook-section">
      <h2>Replays</h2>
      <ul class="webhook-replays">
        {items.map((delivery) => (
          <li key={delivery.id}>
            <DeliveryBadge status={delivery.status} />
            <a href={deliveryHref(delivery)}>{delivery.id}</a>
            <Time at={delivery.created_at} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What is kept of a request whose sender is unknown. */
function Stranger({ delivery: { headers } }: { readonly delivery: Delivery }): JSX.Element {
  return (
    <section class="webhook-section" aria-label="Content">
      <h2>Headers</h2>
      <p class="dim">
        The sender was not verified, so the body is not kept and the request cannot be replayed. When the
        cause is mended, let the sender send it again. Of such requests a route keeps the newest 50, and at
        most 10 of ten minutes.
      </p>
      <Headers headers={headers ?? {}} />
    </section>
  );
}

const PARTS = [
  ["body", "Body"],
  ["prompt", "Prompt"],
  ["headers", "Headers"],
] as const;

interface ContentProps {
  readonly delivery: Delivery;
  readonly part: string;
  readonly canReadBody: boolean;
}

function Content({ delivery, part, canReadBody }: ContentProps): JSX.Element {
  const { payload, rendered, headers } = delivery;
  return (
    <section class="webhook-section" aria-label="Content">
      <Tabs label="Content" name="part" options={PARTS} />
      {part === "headers" ? (
        <Headers headers={headers ?? {}} />
      ) : !canReadBody ? (
        <p class="dim">Your key may not read bodies and prompts: it lacks the scope webhooks.</p>
      ) : part === "prompt" ? (
        <Text
          label="Prompt"
          text={rendered}
          none="No prompt was written: an earlier stage stopped it, or the text is no longer kept."
        />
      ) : (
        <Text label="Body" text={payload && pretty(payload)} none="The body is not kept." />
      )}
    </section>
  );
}

interface TextProps {
  readonly label: string;
  readonly text: string | null;
  readonly none: string;
}

function Text({ label, text, none }: TextProps): JSX.Element {
  if (text === null) return <p class="dim">{none}</p>;
  return (
    <div class="webhook-text">
      <Copy text={text} />
      <pre class="output" tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </div>
  );
}

function Headers({ headers }: { readonly headers: Readonly<Record<string, string>> }): JSX.Element {
  return (
    <dl class="webhook-headers">
      {Object.entries(headers).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={value === "[redacted]" ? "dim" : undefined}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Actions({ delivery }: { readonly delivery: Delivery }): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const { item: route } = useItem<Route>(
    `/v1/webhooks/routes/${encodeURIComponent(delivery.route)}`,
    "route",
    delivery.route,
  );
  const { event, payload, headers } = delivery;
  return (
    <>
      {route && payload !== null ? (
        <Copy label="Copy as curl" text={curlOf({ route, event, body: payload, headers: headers ?? {} })} />
      ) : null}
      {payload === null ? null : (
        <a class="button button-plain" href={`/webhooks/dry-run?from=${encodeURIComponent(delivery.id)}`}>
          Edit and dry-run
        </a>
      )}
      <Button look="primary" icon="refresh" onClick={() => setAsking(true)}>
        Replay
      </Button>
      {isAsking ? (
        <Confirm
          title="Replay this delivery?"
          action="Replay"
          look="primary"
          onClose={() => setAsking(false)}
          onConfirm={() => replay(delivery)}
        >
          <p>
            The stored request is handled again, as a new delivery, with the route {delivery.route} as it is
            now.
          </p>
        </Confirm>
      ) : null}
    </>
  );
}

async function replay({ id }: Delivery): Promise<void> {
  const made = await request<ReplayDeliveryData, Delivery>({
    url: "/v1/webhooks/deliveries/{delivery_id}/replay",
    path: { delivery_id: id },
    body: {},
  });
  refreshTopic("delivery");
  navigate(deliveryHref(made));
  say("Replayed.");
}

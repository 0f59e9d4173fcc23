/** What the pages of webhooks have in common: results in words, the stages of a delivery, and the links between the pages. */
import type { JSX } from "preact";
import type { Delivery, DeliveryStage, DeliveryStageName, DeliveryStatus } from "../../../client/http.ts";
import { address } from "../../router.ts";
import { useStore } from "../../state/store.ts";
import { me } from "../../state/me.ts";
import { Badge, Icon, Snippet, type Tone } from "../../ui/controls.tsx";

const STATUS: Readonly<Record<DeliveryStatus, readonly [Tone, string]>> = {
  accepted: ["busy", "accepted"],
  running: ["busy", "running"],
  completed: ["good", "completed"],
  failed: ["bad", "failed"],
  delivered: ["good", "delivered"],
  unknown: ["warn", "uncertain"],
  ignored: ["dim", "ignored"],
  duplicate: ["dim", "duplicate"],
  refused: ["bad", "refused"],
  interrupted: ["bad", "interrupted"],
};

export const RESULT_OPTIONS: readonly (readonly [DeliveryStatus, string])[] = (
  Object.entries(STATUS) as [DeliveryStatus, readonly [Tone, string]][]
).map(([status, [, word]]) => [status, word]);

export function DeliveryBadge({ status }: { readonly status: DeliveryStatus }): JSX.Element {
  const [tone, word] = STATUS[status];
  return <Badge tone={tone}>{word}</Badge>;
}

export function deliveryHref({ id }: Pick<Delivery, "id">): string {
  return `/webhooks/deliveries/${encodeURIComponent(id)}`;
}

export function routeHref(name: string): string {
  return `/webhooks/${encodeURIComponent(name)}`;
}

export function WebhookLinks(): JSX.Element {
  return (
    <PageLinks
      label="Webhooks"
      links={[
        ["/webhooks", "Routes"],
        ["/webhooks/deliveries", "Deliveries"],
        ["/webhooks/dry-run", "Dry run"],
      ]}
    />
  );
}

/** Says how to turn the receiver on. Nothing where it is on. */
export function ReceiverNote(): JSX.Element | null {
  const isOff = useStore(me, (session) => session?.features.webhooks === false);
  if (!isOff) return null;
  return (
    <section class="webhook-note" aria-label="The receiver is off">
      <Icon name="info" />
      <div>
        <p>This server does not receive webhooks. Turn its receiver on, then start it again:</p>
        <Snippet label="Command" text="agentd gateway setup --enable-webhooks --yes" />
      </div>
    </section>
  );
}

/** All stages of a request in order, and what each decides. */
const STAGES: readonly (readonly [DeliveryStageName, string])[] = [
  ["receive", "The route is enabled, and the body arrives whole"],
  ["signature", "The sender authenticates with the secret"],
  ["rate", "The route and the sender stay within their limits"],
  ["parse", "The body is what its content type says"],
  ["dedupe", "The delivery is a new one"],
  ["events", "The route accepts the event"],
  ["filters", "The payload passes the filters"],
  ["script", "The script lets it pass"],
  ["render", "The prompt or message is written"],
  ["admit", "The run or message is stored"],
];

interface StagesProps {
  readonly stages: readonly DeliveryStage[];
}

export function Stages({ stages }: StagesProps): JSX.Element {
  const done = new Map(stages.map((stage) => [stage.stage, stage]));
  const last = STAGES.findLastIndex(([name]) => done.has(name));
  return (
    <ol class="stages">
      {STAGES.map(([name, what], index) => {
        const { result, detail } = done.get(name) ?? {};
        // The record names it only when it stopped the request.
        if (name === "receive" && !result) return null;
        const look = result ?? "skipped";
        return (
          <li key={name} class={`stages-item stages-${look}`}>
            <Icon name={look === "pass" ? "check" : look === "stop" ? "close" : "dash"} />
            <b>{name}</b>
            <span class="stages-what">
              {detail ?? (result ? what : index < last ? "nothing to do" : "not reached")}
            </span>
            <span class="sr-only">{look === "pass" ? "passed" : look === "stop" ? "stopped here" : ""}</span>
          </li>
        );
      })}
    </ol>
  );
}

/** Returns the stage that stopped a request. */
export function stoppedAt(stages: readonly DeliveryStage[] | null): DeliveryStage | undefined {
  return stages?.find(({ result }) => result === "stop");
}

/** Whether a request was refused before its sender was known: its body is not kept, and nothing can be replayed. */
export function isUnverified({ stages }: Pick<Delivery, "stages">): boolean {
  const stage = stoppedAt(stages)?.stage;
  return stage === "receive" || stage === "signature";
}

/** Returns JSON indented, and any other text as it is. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Not JSON: a form, XML or plain text.
    return text;
  }
}

interface PageLinksProps {
  readonly label: string;
  readonly links: readonly (readonly [href: string, word: string])[];
}

/** Pages of one subject as tabs: each has an address of its own. */
function PageLinks({ label, links }: PageLinksProps): JSX.Element {
  const path = useStore(address, (value) => value.path);
  return (
    <nav class="tabs" aria-label={label}>
      {links.map(([href, word]) => (
        <a key={href} class="tab" href={href} aria-current={path === href ? "page" : undefined}>
          {word}
        </a>
      ))}
    </nav>
  );
}

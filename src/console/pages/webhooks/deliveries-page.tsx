/** Everything that was received, with its result; filtered by the address. */
import type { JSX } from "preact";
import type { Delivery } from "../../../client/http.ts";
import type { PageProps } from "../../router.ts";
import { useList } from "../../state/resources.ts";
import { Empty, PageHeader, Time } from "../../ui/controls.tsx";
import { ChoiceFilter, Filters, WindowFilter, windowStart } from "../../ui/filters.tsx";
import { ListTable, type Column } from "../../ui/table.tsx";
import { DeliveryBadge, deliveryHref, ReceiverNote, RESULT_OPTIONS, WebhookLinks } from "./parts.tsx";
import { useRoutes } from "./webhooks-page.tsx";

export const DELIVERY_COLUMNS: readonly Column<Delivery>[] = [
  { name: "Event", cell: ({ event }) => event || "no event" },
  { name: "Route", cell: ({ route }) => route },
  { name: "Result", cell: ({ status }) => <DeliveryBadge status={status} /> },
  { name: "Why", isWide: true, cell: (delivery) => whyOf(delivery) },
  { name: "Received", align: "end", cell: (delivery) => <Time at={delivery.created_at} /> },
];

function whyOf({ reason, replay_of: replayOf, run_id: runId }: Delivery): JSX.Element {
  if (reason !== null) return <span title={reason}>{reason}</span>;
  if (replayOf !== null) return <span class="dim">a replay</span>;
  return <span class="dim">{runId === null ? "–" : "started a run"}</span>;
}

export function DeliveriesPage({ query }: PageProps): JSX.Element {
  const routes = useRoutes();
  const filters = { route: query.get("route") ?? "", status: query.get("result") ?? "" };
  const from = windowStart(query.get("since"));
  const deliveries = useList<Delivery>("/v1/webhooks/deliveries", { ...filters, from }, ["delivery"]);
  return (
    <>
      <PageHeader title="Webhooks" />
      <div class="page-body">
        <WebhookLinks />
        <Filters>
          <ChoiceFilter
            name="route"
            label="Route"
            options={routes.items.map(({ name }) => [name, name] as const)}
          />
          <ChoiceFilter name="result" label="Result" options={RESULT_OPTIONS} />
          <WindowFilter name="since" label="Received" />
        </Filters>
        <ReceiverNote />
        <ListTable
          label="Deliveries"
          list={deliveries}
          columns={DELIVERY_COLUMNS}
          href={deliveryHref}
          isFiltered={filters.route !== "" || filters.status !== "" || from !== undefined}
          empty={
            <Empty icon="webhooks" title="Nothing was received yet">
              <p>
                Each request that reaches a route is listed here with the result of every stage, also those
                that are ignored or refused.
              </p>
              <a class="button button-plain" href="/webhooks">
                Show the routes
              </a>
            </Empty>
          }
        />
      </div>
    </>
  );
}

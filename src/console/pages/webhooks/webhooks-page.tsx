/** Routes of webhooks: what each accepts and where its answers go, and how to make the first one. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Route, UpdateRouteData } from "../../../client/http.ts";
import { useCan } from "../../state/me.ts";
import { refreshTopic, useList } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Badge, Button, Empty, PageHeader, Snippet, Time } from "../../ui/controls.tsx";
import { attempt } from "../../ui/dialog.tsx";
import { ListTable, type Column } from "../../ui/table.tsx";
import { CreateRoute } from "./route-form.tsx";
import { ReceiverNote, routeHref, WebhookLinks } from "./parts.tsx";

export type NamedRoute = Route & { readonly id: string };

/** All routes, by name. */
export function useRoutes() {
  return useList<NamedRoute>(
    "/v1/webhooks/routes",
    { limit: 100 },
    ["route", "delivery"],
    ({ name }) => name,
  );
}

const COLUMNS: readonly Column<NamedRoute>[] = [
  { name: "Route", cell: (route) => route.name },
  { name: "Status", cell: (route) => <RouteBadge route={route} /> },
  { name: "Events", cell: ({ events }) => <Events events={events} /> },
  { name: "What it does", isWide: true, cell: (route) => purposeOf(route) },
  { name: "Answers go to", cell: ({ deliver }) => deliver },
  { name: "Last delivery", align: "end", cell: (route) => <Time at={route.last_delivery_at} /> },
];

export function WebhooksPage(): JSX.Element {
  const routes = useRoutes();
  const canChange = useCan("webhooks");
  const [isCreating, setCreating] = useState(false);
  const create = canChange ? (
    <Button icon="plus" look="primary" onClick={() => setCreating(true)}>
      New route
    </Button>
  ) : null;
  return (
    <>
      <PageHeader title="Webhooks">{create}</PageHeader>
      <div class="page-body">
        <WebhookLinks />
        <ReceiverNote />
        <ListTable
          label="Routes"
          list={routes}
          columns={COLUMNS}
          href={(route) => routeHref(route.name)}
          {...(canChange ? { actions: (route: Route) => <Switch route={route} /> } : {})}
          empty={<NoRoutes onCreate={canChange ? () => setCreating(true) : undefined} />}
        />
        {isCreating ? <CreateRoute onClose={() => setCreating(false)} /> : null}
      </div>
    </>
  );
}

export function RouteBadge({ route }: { readonly route: Route }): JSX.Element {
  if (!route.enabled) return <Badge tone="dim">disabled</Badge>;
  if (route.issues.length > 0) return <Badge tone="warn">needs attention</Badge>;
  return <Badge tone="good">enabled</Badge>;
}

function Events({ events }: Pick<Route, "events">): JSX.Element {
  if (events.length === 0) return <span class="dim">all</span>;
  const [first, ...more] = events;
  return (
    <span title={events.join(", ")}>
      {first}
      {more.length > 0 ? <span class="dim"> +{more.length}</span> : null}
    </span>
  );
}

function purposeOf({ description, prompt, deliver_only: isMessage }: Route): string {
  return description || prompt || (isMessage ? "Passes the payload on" : "Gives the payload to the agent");
}

/** Changes whether a route accepts requests. Configured routes are changed in the configuration. */
export function Switch({ route }: { readonly route: Route }): JSX.Element | null {
  if (route.source === "config") return <span class="dim">in the configuration</span>;
  const { name, enabled } = route;
  return (
    <Button
      icon={enabled ? "pause" : "play"}
      aria-label={`${enabled ? "Disable" : "Enable"} ${name}`}
      onClick={() => attempt(() => changeRoute(name, { enabled: !enabled }))}
    >
      {enabled ? "Disable" : "Enable"}
    </Button>
  );
}

/** Changes some fields of a route; the others stay. */
export async function changeRoute(name: string, body: UpdateRouteData["body"]): Promise<void> {
  const sent = {
    url: "/v1/webhooks/routes/{route_name}",
    method: "PATCH",
    path: { route_name: name },
    body,
  } as const;
  await request<UpdateRouteData, Route>(sent);
  refreshTopic("route");
}

function NoRoutes({ onCreate }: { readonly onCreate: (() => void) | undefined }): JSX.Element {
  return (
    <Empty icon="webhooks" title="No route yet">
      <p>
        A route is an address for one sender. Each signed event that it accepts starts a run of the agent, or
        becomes a message.
      </p>
      {onCreate ? (
        <Button look="primary" icon="plus" onClick={onCreate}>
          Create a route
        </Button>
      ) : null}
      <p>or, in a terminal:</p>
      <Snippet
        label="Command"
        text={`agentd webhook subscribe hello --prompt 'Say hello to {name}.'\nagentd webhook test hello --payload '{"name": "Ada"}'`}
      />
    </Empty>
  );
}

/** One route: its address, its definition, its secrets, and what it received last. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type {
  Delivery,
  DeleteRouteData,
  RotatedRouteSecret,
  RotateRouteSecretData,
  Route,
} from "../../../client/http.ts";
import { navigate, type PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { forgetItem, refreshTopic, useItem, useList } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Button, Loading, PageHeader, Problem, Snippet, Time } from "../../ui/controls.tsx";
import { Confirm, Dialog, say } from "../../ui/dialog.tsx";
import { Form, SelectInput } from "../../ui/form.tsx";
import { Facts, ListTable } from "../../ui/table.tsx";
import { DELIVERY_COLUMNS } from "./deliveries-page.tsx";
import { curlOf } from "./curl.ts";
import { deliveryHref, ReceiverNote } from "./parts.tsx";
import { changesOf, RouteFields, SecretDialog, valuesOf } from "./route-form.tsx";
import { changeRoute, RouteBadge, Switch } from "./webhooks-page.tsx";

const BACK = { href: "/webhooks", label: "All routes" };

export function RoutePage({ params }: PageProps): JSX.Element {
  const name = params["route"] ?? "";
  const {
    item: route,
    status,
    problem,
    reload,
  } = useItem<Route>(`/v1/webhooks/routes/${encodeURIComponent(name)}`, ["route", "delivery"]);
  const canChange = useCan("webhooks");
  if (!route) {
    return (
      <>
        <PageHeader title={name} back={BACK} />
        <div class="page-body">
          {status === "failed" ? <Problem message={problem} onRetry={reload} /> : <Loading />}
        </div>
      </>
    );
  }
  const isOwn = canChange && route.source !== "config";
  return (
    <>
      <PageHeader title={name} back={BACK} aside={<RouteBadge route={route} />}>
        {isOwn ? <Actions route={route} /> : null}
      </PageHeader>
      <div class="page-body">
        <ReceiverNote />
        {route.issues.map((issue) => (
          <Problem key={issue} message={issue} />
        ))}
        <Address route={route} />
        <RouteFacts route={route} />
        {isOwn ? <Edit route={route} /> : null}
        <Received name={name} />
      </div>
    </>
  );
}

function Address({ route }: { readonly route: Route }): JSX.Element | null {
  const { url, auth, events } = route;
  if (url === null) return null;
  const [event = "test"] = events;
  return (
    <section class="webhook-section">
      <h2>Address</h2>
      <Snippet label="Address" text={auth === "path" ? `${url}/<secret>` : url} />
      <details class="webhook-more">
        <summary>Send an event from a terminal</summary>
        <Snippet label="Command" text={curlOf({ route, event, body: '{"name": "Ada"}' })} />
      </details>
    </section>
  );
}

function RouteFacts({ route }: { readonly route: Route }): JSX.Element {
  const secrets = route.secrets.map(({ fingerprint, from, expires_at: expires }, index) => (
    <span key={index} class="webhook-secret">
      <code>{fingerprint ?? "not shown"}</code>
      {from === "env" ? <span class="dim"> from a variable</span> : null}
      {expires === null ? null : (
        <span class="dim">
          {" "}
          ends <Time at={expires} />
        </span>
      )}
    </span>
  ));
  return (
    <Facts
      facts={[
        ["Events", route.events.length === 0 ? "all" : route.events.join(", ")],
        ["Answers go to", route.deliver],
        ["Without the agent", route.deliver_only ? "yes" : null],
        ["Secret", secrets.length === 0 ? "none: anyone on this machine may send" : secrets],
        ["Defined in", route.source === "config" ? "the configuration" : "agentd, by its API"],
        ["Owner", route.owner === "default" ? null : route.owner],
        [
          "Last delivery",
          route.last_delivery_at === null ? "none yet" : <Time at={route.last_delivery_at} />,
        ],
      ]}
    />
  );
}

function Edit({ route }: { readonly route: Route }): JSX.Element {
  const before = valuesOf(route);
  return (
    <details class="webhook-card">
      <summary>Edit this route</summary>
      <Form
        key={JSON.stringify(before)}
        initial={before}
        action="Save"
        onSubmit={async (values) => {
          const changes = changesOf(before, values);
          if (Object.keys(changes).length === 0) return say("Nothing was changed.");
          await changeRoute(route.name, changes);
          say("Saved. It applies from the next event on.");
        }}
      >
        <RouteFields />
      </Form>
    </details>
  );
}

type Opened = "rotate" | "delete" | undefined;

function Actions({ route }: { readonly route: Route }): JSX.Element {
  const [opened, setOpened] = useState<Opened>();
  const [rotated, setRotated] = useState<RotatedRouteSecret>();
  const close = () => setOpened(undefined);
  const address = { url: "/v1/webhooks/routes/{route_name}", path: { route_name: route.name } } as const;
  return (
    <>
      <Switch route={route} />
      <Button onClick={() => setOpened("rotate")}>Rotate secret</Button>
      <Button icon="trash" look="danger" onClick={() => setOpened("delete")}>
        Delete
      </Button>
      {opened === "rotate" ? <Rotate route={route} onClose={close} onRotated={setRotated} /> : null}
      {rotated ? (
        <SecretDialog
          title="The new secret"
          route={route}
          secret={rotated.secret}
          onClose={() => setRotated(undefined)}
        >
          {rotated.previous_expires_at === null ? (
            <p>The earlier secret is no longer valid.</p>
          ) : (
            <p>
              The earlier secret ends <Time at={rotated.previous_expires_at} />.
            </p>
          )}
        </SecretDialog>
      ) : null}
      {opened === "delete" ? (
        <Confirm
          title={`Delete the route ${route.name}?`}
          action="Delete"
          onClose={close}
          onConfirm={async () => {
            await forgetItem(`/v1/webhooks/routes/${encodeURIComponent(route.name)}`);
            await request<DeleteRouteData, unknown>({ ...address, method: "DELETE" });
            navigate("/webhooks", { replace: true });
            refreshTopic("route");
          }}
        >
          <p>Its address answers 404 from then on. Its deliveries, runs and messages stay.</p>
        </Confirm>
      ) : null}
    </>
  );
}

const OVERLAPS = [
  ["86400", "for a day"],
  ["3600", "for an hour"],
  ["604800", "for a week"],
  ["0", "no longer"],
] as const;

interface RotateProps {
  readonly route: Route;
  readonly onClose: () => void;
  readonly onRotated: (rotated: RotatedRouteSecret) => void;
}

function Rotate({ route, onClose, onRotated }: RotateProps): JSX.Element {
  return (
    <Dialog title="Replace the secret" onClose={onClose}>
      <Form
        initial={{ seconds: "86400" }}
        action="Make a new secret"
        onCancel={onClose}
        onSubmit={async ({ seconds }) => {
          const rotated = await request<RotateRouteSecretData, RotatedRouteSecret>({
            url: "/v1/webhooks/routes/{route_name}/rotate-secret",
            path: { route_name: route.name },
            body: { expire_previous_seconds: Number(seconds) },
          });
          refreshTopic("route");
          onClose();
          onRotated(rotated);
        }}
      >
        <p>The new secret is valid at once, and is shown only once.</p>
        <SelectInput name="seconds" label="The earlier secret stays valid" options={OVERLAPS} />
      </Form>
    </Dialog>
  );
}

function Received({ name }: { readonly name: string }): JSX.Element {
  const list = useList<Delivery>("/v1/webhooks/deliveries", { route: name, limit: 10 }, ["delivery"]);
  return (
    <section class="webhook-section">
      <h2>Deliveries</h2>
      <ListTable
        label="Deliveries of this route"
        list={list}
        columns={DELIVERY_COLUMNS.filter((column) => column.name !== "Route")}
        href={deliveryHref}
        empty={<p class="dim">Nothing was received yet.</p>}
      />
    </section>
  );
}

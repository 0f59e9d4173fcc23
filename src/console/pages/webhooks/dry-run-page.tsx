/** Tries a request, or a change of a route, through all stages. Nothing is stored, sent or started. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type {
  Delivery,
  ReplayDeliveryData,
  Route,
  TestRouteData,
  UpdateRouteBody,
  WebhookResult,
} from "../../../client/http.ts";
import { setQuery, type PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { useItem } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Badge, Button, Empty, Loading, PageHeader, Problem } from "../../ui/controls.tsx";
import { attempt } from "../../ui/dialog.tsx";
import { Tabs, useParameter } from "../../ui/filters.tsx";
import { CheckInput, Form, TextInput } from "../../ui/form.tsx";
import { Facts } from "../../ui/table.tsx";
import { useDelivery } from "./delivery-page.tsx";
import { deliveryHref, pretty, routeHref, Stages, stoppedAt, WebhookLinks } from "./parts.tsx";
import { changesOf, RouteFields, valuesOf } from "./route-form.tsx";
import { changeRoute, useRoutes } from "./webhooks-page.tsx";

export function DryRunPage({ query }: PageProps): JSX.Element {
  const from = query.get("from");
  const canTry = useCan("webhooks");
  return (
    <>
      <PageHeader
        title={from === null ? "Webhooks" : "Dry run"}
        {...(from === null ? {} : { back: { href: deliveryHref({ id: from }), label: "The delivery" } })}
      />
      <div class="page-body">
        {from === null ? <WebhookLinks /> : null}
        {!canTry ? (
          <Problem message="Your key may not try requests: it lacks the scope webhooks." />
        ) : from === null ? (
          <FromRoute name={query.get("route") ?? ""} />
        ) : (
          <FromDelivery id={from} />
        )}
      </div>
    </>
  );
}

function FromRoute({ name }: { readonly name: string }): JSX.Element {
  const { items, status, problem, reload } = useRoutes();
  if (status === "loading") return <Loading />;
  if (status === "failed") return <Problem message={problem} onRetry={reload} />;
  const route = items.find((each) => each.name === name) ?? items[0];
  if (!route) {
    return (
      <Empty icon="webhooks" title="No route to try yet">
        <p>A dry run shows what each stage of a route would do with a request, and changes nothing.</p>
        <a class="button button-plain" href="/webhooks">
          Create a route
        </a>
      </Empty>
    );
  }
  return (
    <>
      <label class="filter">
        <span>Route</span>
        <select
          class="input"
          value={route.name}
          onChange={(event) => setQuery({ route: event.currentTarget.value })}
        >
          {items.map((each) => (
            <option key={each.name} value={each.name}>
              {each.name}
            </option>
          ))}
        </select>
      </label>
      <TryRequest key={route.name} route={route.name} event={route.events[0] ?? ""} body="{}" headers={{}} />
    </>
  );
}

const WAYS = [
  ["request", "Change the request"],
  ["route", "Change the route"],
] as const;

function FromDelivery({ id }: { readonly id: string }): JSX.Element {
  const { item: delivery, status, problem, reload } = useDelivery(id);
  if (!delivery) return status === "failed" ? <Problem message={problem} onRetry={reload} /> : <Loading />;
  return (
    <>
      <p class="dim">
        From the delivery <a href={deliveryHref(delivery)}>{delivery.event || delivery.id}</a> to the route{" "}
        <a href={routeHref(delivery.route)}>{delivery.route}</a>. Nothing is stored, sent or started.
      </p>
      <Tabs label="What to change" name="change" options={WAYS} />
      <Ways delivery={delivery} />
    </>
  );
}

function Ways({ delivery }: { readonly delivery: Delivery }): JSX.Element {
  const way = useParameter("change");
  const { route, event, payload, headers } = delivery;
  if (way === "route") return <TryRoute delivery={delivery} />;
  return (
    <TryRequest
      route={route}
      event={event}
      body={pretty(payload ?? "{}")}
      headers={sentHeaders(headers ?? {})}
    />
  );
}

/** What describes the event: the signature, the length and the rest of the connection are made anew. */
function sentHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name, value]) => /event|topic|action/.test(name) && value !== "[redacted]",
    ),
  );
}

interface TryRequestProps {
  readonly route: string;
  readonly event: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

function TryRequest({ route, event, body, headers }: TryRequestProps): JSX.Element {
  const [result, setResult] = useState<WebhookResult>();
  return (
    <div class="dry-run">
      <Form
        initial={{ event, body, skip: false }}
        action="Try it"
        onSubmit={async (values) => {
          const name = String(values["event"]).trim();
          setResult(
            await request<TestRouteData, WebhookResult>({
              url: "/v1/webhooks/routes/{route_name}/test",
              path: { route_name: route },
              body: {
                payload: payloadOf(String(values["body"])),
                ...(name === "" ? {} : { event: name }),
                ...(name === event ? { headers } : {}),
                skip_script: values["skip"] === true,
              },
            }),
          );
        }}
      >
        <TextInput name="event" label="Event" hint="Empty: the first that the route accepts." />
        <TextInput name="body" label="Body" kind="code" />
        <CheckInput name="skip" label="Without the script of the route" />
      </Form>
      <Result result={result} />
    </div>
  );
}

function payloadOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`The body is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

/** Handles the stored request with other filters, another prompt and so on, and can keep them. */
function TryRoute({ delivery }: { readonly delivery: Delivery }): JSX.Element {
  const { route: name, id } = delivery;
  const {
    item: route,
    status,
    problem,
  } = useItem<Route>(`/v1/webhooks/routes/${encodeURIComponent(name)}`, "route", name);
  const [tried, setTried] = useState<{ readonly result: WebhookResult; readonly changes: UpdateRouteBody }>();
  if (!route) return status === "failed" ? <Problem message={problem} /> : <Loading />;
  const before = valuesOf(route);
  const canKeep = route.source !== "config" && tried !== undefined && Object.keys(tried.changes).length > 0;
  return (
    <div class="dry-run">
      <Form
        initial={before}
        action="Try it"
        onSubmit={async (values) => {
          const changes = changesOf(before, values);
          const result = await request<ReplayDeliveryData, WebhookResult>({
            url: "/v1/webhooks/deliveries/{delivery_id}/replay",
            path: { delivery_id: id },
            query: { dry_run: true },
            body: { route: changes },
          });
          setTried({ result, changes });
        }}
      >
        <RouteFields />
      </Form>
      <Result result={tried?.result}>
        {canKeep ? (
          <Button
            onClick={() =>
              attempt(() => changeRoute(name, tried.changes), "Saved. It applies from the next event on.")
            }
          >
            Save these changes to the route
          </Button>
        ) : null}
      </Result>
    </div>
  );
}

interface ResultProps {
  readonly result: WebhookResult | undefined;
  readonly children?: JSX.Element | null;
}

function Result({ result, children }: ResultProps): JSX.Element {
  if (!result) {
    return (
      <section class="dry-run-result" aria-label="Result">
        <p class="dim">The result of each stage appears here.</p>
      </section>
    );
  }
  const {
    stages,
    http_status: httpStatus,
    rendered,
    targets,
    toolsets,
    issues,
    missing_fields: missing,
  } = result;
  const stopped = stoppedAt(stages);
  return (
    <section class="dry-run-result" aria-label="Result" aria-live="polite">
      <h2>
        {stopped ? `It would stop at the ${stopped.stage} stage` : "It would be accepted"}{" "}
        <Badge tone={stopped ? "warn" : "good"}>
          {httpStatus === null ? "not all stages" : `HTTP ${httpStatus}`}
        </Badge>
      </h2>
      <Stages stages={stages} />
      {missing.length > 0 ? (
        <Problem message={`The payload has no ${missing.join(", ")}, which the prompt uses.`} />
      ) : null}
      {issues.map((issue) => (
        <Problem key={issue} message={issue} />
      ))}
      {rendered === null ? null : (
        <>
          <h3>Prompt</h3>
          <pre class="output" tabIndex={0} aria-label="Prompt">
            {rendered}
          </pre>
        </>
      )}
      <Facts
        facts={[
          ["The answer goes to", targets.join(", ")],
          ["Tools of the run", toolsets.join(", ")],
        ]}
      />
      {children}
    </section>
  );
}

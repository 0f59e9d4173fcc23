/** Creates and edits a route, and shows its secret once. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { CreateRouteData, Route, UpdateRouteBody } from "../../../client/http.ts";
import { navigate } from "../../router.ts";
import { refreshTopic } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Button, Snippet } from "../../ui/controls.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { CheckInput, Form, SelectInput, TextInput, type Values } from "../../ui/form.tsx";
import { curlOf } from "./curl.ts";
import { routeHref } from "./parts.tsx";

const AUTHS = [
  ["signature", "a signature of the body"],
  ["bearer", "the secret as a bearer token"],
  ["basic", "the secret as the password of basic authentication"],
  ["path", "the secret in the address"],
] as const;

const SCHEMES = [
  ["auto", "recognized by its headers (GitHub, GitLab, Svix, Standard Webhooks and others)"],
  ["bitbucket", "Bitbucket"],
  ["gitea", "Gitea"],
  ["gogs", "Gogs"],
  ["grafana", "Grafana"],
  ["jira", "Jira"],
  ["linear", "Linear"],
  ["meta", "Meta"],
  ["notion", "Notion"],
  ["pagerduty", "PagerDuty"],
  ["sentry", "Sentry"],
  ["shopify", "Shopify"],
  ["slack", "Slack"],
  ["stripe", "Stripe"],
  ["telegram", "Telegram"],
  ["twilio", "Twilio"],
  ["vercel", "Vercel"],
  ["zoom", "Zoom"],
  ["custom", "as its field signature says (only over the API)"],
] as const;

const FILTER_EXAMPLE = '[{ "field": "action", "in": ["opened", "reopened"] }]';

/** What the form shows of a route. */
export function valuesOf(route?: Route): Values {
  return {
    name: route?.name ?? "",
    description: route?.description ?? "",
    events: route?.events.join(", ") ?? "",
    prompt: route?.prompt ?? "",
    deliver: route?.deliver ?? "log",
    deliver_only: route?.deliver_only ?? false,
    auth: route?.auth ?? "signature",
    scheme: route?.scheme ?? "auto",
    filters: route && route.filters.length > 0 ? JSON.stringify(route.filters, null, 2) : "",
    script: route?.script ?? "",
    skills: route?.skills.join(", ") ?? "",
  };
}

/** Returns the fields whose values differ, as the API takes them; an empty one is null, its default. */
export function changesOf(before: Values, after: Values): UpdateRouteBody {
  const changed = Object.entries(after).filter(([name, value]) => name !== "name" && value !== before[name]);
  return Object.fromEntries(changed.map(([name, value]) => [name, fieldOf(name, value)]));
}

function fieldOf(name: string, value: string | boolean): unknown {
  if (typeof value === "boolean") return value;
  const text = value.trim();
  if (text === "") return null;
  if (name === "events" || name === "skills") return wordsOf(text);
  if (name !== "filters") return value;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`The filters are not JSON, such as ${FILTER_EXAMPLE}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

function wordsOf(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== "");
}

/** The fields of a route; its name is chosen once. */
export function RouteFields({ isNew = false }: { readonly isNew?: boolean }): JSX.Element {
  return (
    <>
      {isNew ? (
        <TextInput
          name="name"
          label="Name"
          isRequired
          placeholder="pushes"
          hint="The end of its address: a-z, 0-9, - and _"
        />
      ) : null}
      <TextInput
        name="events"
        label="Events"
        placeholder="push, release"
        hint="Only these, separated by commas. Empty: all events."
      />
      <TextInput
        name="prompt"
        label="Prompt"
        kind="long"
        placeholder="Summarize what {pusher.name} pushed to {ref}."
        hint="Fields of the payload in braces. Empty: the payload itself."
      />
      <TextInput
        name="deliver"
        label="Where the answer goes"
        placeholder="log"
        hint="log, or an address such as telegram:-100123"
      />
      <CheckInput
        name="deliver_only"
        label="Deliver the text without the agent"
        hint="The rendered prompt is the message."
      />
      <details class="webhook-more">
        <summary>Filters, signature and more</summary>
        <div class="form">
          <TextInput name="description" label="Description" />
          <TextInput
            name="filters"
            label="Filters"
            kind="code"
            placeholder={FILTER_EXAMPLE}
            hint="JSON. All of them must match."
          />
          <SelectInput name="scheme" label="How the service signs" options={SCHEMES} />
          <SelectInput name="auth" label="How the sender authenticates" options={AUTHS} />
          <TextInput name="skills" label="Skills" hint="Names, separated by commas." />
          <TextInput
            name="script"
            label="Script"
            hint="A file in the folder scripts that reads the payload first."
          />
        </div>
      </details>
    </>
  );
}

interface CreateProps {
  readonly onClose: () => void;
}

export function CreateRoute({ onClose }: CreateProps): JSX.Element {
  const [made, setMade] = useState<Route>();
  if (made) {
    const leave = () => {
      onClose();
      navigate(routeHref(made.name));
    };
    return (
      <SecretDialog
        title={`The route ${made.name} is ready`}
        route={made}
        secret={made.secret}
        onClose={leave}
      />
    );
  }
  const empty = valuesOf();
  return (
    <Dialog title="New route" onClose={onClose} size="wide">
      <Form
        initial={empty}
        action="Create the route"
        onCancel={onClose}
        onSubmit={async (values) => {
          const body = { ...changesOf(empty, values), name: String(values["name"]).trim() };
          const route = await request<CreateRouteData, Route>({ url: "/v1/webhooks/routes", body });
          refreshTopic("route");
          setMade(route);
        }}
      >
        <RouteFields isNew />
      </Form>
    </Dialog>
  );
}

interface SecretProps {
  readonly title: string;
  readonly route: Route;
  readonly secret: string | null;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** The only time that a secret is shown. */
export function SecretDialog({ title, route, secret, onClose, children }: SecretProps): JSX.Element {
  const [event = "test"] = route.events;
  return (
    <Dialog title={title} onClose={onClose} size="wide">
      <div class="dialog-content">
        {children}
        {route.url === null ? (
          <p>It has an address once the receiver of webhooks is on.</p>
        ) : (
          <>
            <h3>Address</h3>
            <Snippet label="Address" text={route.url} />
          </>
        )}
        {secret === null ? (
          route.secrets.length === 0 ? null : (
            <p>
              The connection broke before the secret arrived here, and it is not shown again. Rotate the
              secret of the route to get another one.
            </p>
          )
        ) : (
          <>
            <h3>Secret</h3>
            <Snippet label="Secret" text={secret} />
            <p class="dim">
              Give it to the sender now: it is not shown again. You can replace it at any time.
            </p>
            <h3>Send an event</h3>
            <Snippet label="Command" text={curlOf({ route, event, body: '{"name": "Ada"}', secret })} />
          </>
        )}
      </div>
      <footer class="dialog-actions">
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </footer>
    </Dialog>
  );
}

/** API keys: create, rotate, change and revoke. The value of a key is shown once, and kept nowhere in the page. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ApiKey, CreateKeyBody, KeyScope, UpdateKeyBody } from "../../../client/http.ts";
import { refreshTopic, useList } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Badge, Button, Empty, Snippet, Time, type Tone } from "../../ui/controls.tsx";
import { Confirm, Dialog } from "../../ui/dialog.tsx";
import { CheckInput, Form, SelectInput, TextInput, type Values } from "../../ui/form.tsx";
import { cost } from "../../ui/format.ts";
import { NeedsScope } from "../../ui/stats.tsx";
import { ListTable, type Column } from "../../ui/table.tsx";

const SCOPES: readonly (readonly [KeyScope, string])[] = [
  ["read", "sees lists, transcripts and usage"],
  ["chat", "talks with the agent"],
  ["runs", "starts and stops runs"],
  ["sessions", "renames, forks and deletes sessions"],
  ["approvals", "answers questions of the agent"],
  ["jobs", "changes the schedule"],
  ["webhooks", "changes webhook routes, and replays deliveries"],
  ["messages", "sends, retries and drops messages"],
  ["admin", "everything, also settings and keys"],
];

export function Keys(): JSX.Element {
  return (
    <NeedsScope scope="admin" what="API keys">
      <KeyList />
    </NeedsScope>
  );
}

const STATUS: Readonly<Record<ApiKey["status"], Tone>> = { active: "good", expired: "warn", revoked: "dim" };

const COLUMNS: readonly Column<ApiKey>[] = [
  {
    name: "Key",
    cell: ({ name, status, redacted_value: value }) => (
      <span class="key-name">
        {name} {status === "active" ? null : <Badge tone={STATUS[status]}>{status}</Badge>}
        {value === null ? null : <code class="dim">{value}</code>}
      </span>
    ),
  },
  { name: "Scopes", isWide: true, cell: ({ scopes }) => <span class="key-scopes">{scopes.join(", ")}</span> },
  { name: "Limits", cell: (key) => limitsOf(key) },
  { name: "Expires", align: "end", cell: ({ expires_at: at }) => (at === null ? "never" : <Time at={at} />) },
  { name: "Last used", align: "end", cell: ({ last_used_at: at }) => <Time at={at} /> },
];

function limitsOf({
  rate_limit_rpm: rate,
  max_concurrent_runs: runs,
  day_budget_usd: budget,
}: ApiKey): string {
  const limits = [
    rate === null ? "" : `${rate} a minute`,
    runs === null ? "" : `${runs} runs at once`,
    budget === null ? "" : `${cost(budget)} a day`,
  ];
  return limits.filter(Boolean).join(", ") || "–";
}

function KeyList(): JSX.Element {
  const list = useList<ApiKey>("/v1/keys", {}, ["key"]);
  const [isCreating, setCreating] = useState(false);
  const [made, setMade] = useState<ApiKey>();
  return (
    <>
      <p class="settings-actions">
        <Button look="primary" icon="plus" onClick={() => setCreating(true)}>
          New key
        </Button>
      </p>
      <ListTable
        label="API keys"
        list={list}
        columns={COLUMNS}
        actions={(key) => <Actions apiKey={key} onValue={setMade} />}
        empty={<Empty icon="keys" title="No key" />}
      />
      {isCreating ? <CreateDialog onClose={() => setCreating(false)} onMade={setMade} /> : null}
      {made ? <ValueDialog apiKey={made} onClose={() => setMade(undefined)} /> : null}
    </>
  );
}

interface ActionsProps {
  readonly apiKey: ApiKey;
  /** Gets a key with a new value. */
  readonly onValue: (key: ApiKey) => void;
}

function Actions({ apiKey, onValue }: ActionsProps): JSX.Element {
  const [open, setOpen] = useState<"change" | "rotate" | "revoke">();
  const close = () => setOpen(undefined);
  if (apiKey.source === "config") return <span class="dim">in the configuration</span>;
  if (apiKey.status === "revoked") return <></>;
  const of = <span class="sr-only"> {apiKey.name}</span>;
  return (
    <>
      <Button look="quiet" onClick={() => setOpen("change")}>
        Change{of}
      </Button>
      <Button look="quiet" onClick={() => setOpen("rotate")}>
        Rotate{of}
      </Button>
      <Button look="danger" onClick={() => setOpen("revoke")}>
        Revoke{of}
      </Button>
      {open === "change" ? <ChangeDialog apiKey={apiKey} onClose={close} /> : null}
      {open === "rotate" ? <RotateDialog apiKey={apiKey} onClose={close} onValue={onValue} /> : null}
      {open === "revoke" ? <RevokeDialog apiKey={apiKey} onClose={close} /> : null}
    </>
  );
}

const DAY = 86_400;
const LIFETIMES = [
  ["", "Never"],
  [String(DAY), "In a day"],
  [String(30 * DAY), "In 30 days"],
  [String(365 * DAY), "In a year"],
] as const;

function initialScopes(has: (scope: KeyScope) => boolean): Values {
  return Object.fromEntries(SCOPES.map(([scope]) => [scope, has(scope)]));
}

function scopesOf(values: Values): KeyScope[] {
  return SCOPES.filter(([scope]) => values[scope] === true).map(([scope]) => scope);
}

function ScopeInputs(): JSX.Element {
  return (
    <fieldset class="key-inputs">
      <legend>Scopes</legend>
      {SCOPES.map(([scope, words]) => (
        <CheckInput key={scope} name={scope} label={scope} hint={words} />
      ))}
    </fieldset>
  );
}

function CreateDialog({
  onClose,
  onMade,
}: {
  readonly onClose: () => void;
  readonly onMade: (key: ApiKey) => void;
}): JSX.Element {
  const create = async (values: Values) => {
    const { name, owner, lifetime, day_budget_usd: budget } = values;
    const body: CreateKeyBody = {
      name: String(name),
      scopes: scopesOf(values),
      ...(owner ? { owner: String(owner) } : {}),
      ...(lifetime ? { expires_at: Math.floor(Date.now() / 1_000) + Number(lifetime) } : {}),
      ...(budget ? { day_budget_usd: Number(budget) } : {}),
    };
    const key = await request<{ url: string; body: CreateKeyBody }, ApiKey>({ url: "/v1/keys", body });
    refreshTopic("key");
    onClose();
    onMade(key);
  };
  const initial = {
    name: "",
    owner: "",
    lifetime: "",
    day_budget_usd: "",
    ...initialScopes((scope) => scope === "read"),
  };
  return (
    <Dialog title="New key" onClose={onClose}>
      <Form initial={initial} action="Create" onSubmit={create} onCancel={onClose}>
        <TextInput name="name" label="Name" hint="Runs and changes name it, such as dashboard." isRequired />
        <TextInput name="owner" label="Owner" hint="Whose data it reaches. Empty: its own." />
        <ScopeInputs />
        <SelectInput name="lifetime" label="Expires" options={LIFETIMES} />
        <TextInput
          name="day_budget_usd"
          label="Budget a day, in US dollars"
          hint="Empty: no limit."
          kind="number"
        />
      </Form>
    </Dialog>
  );
}

function ValueDialog({
  apiKey,
  onClose,
}: {
  readonly apiKey: ApiKey;
  readonly onClose: () => void;
}): JSX.Element {
  return (
    <Dialog title={`The key ${apiKey.name}`} onClose={onClose}>
      <p>Copy it now: it is shown only once.</p>
      <Snippet
        text={apiKey.key ?? "This request was repeated: rotate the key for a new value."}
        label="Value of the key"
      />
      <footer class="dialog-actions">
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </footer>
    </Dialog>
  );
}

interface KeyDialogProps {
  readonly apiKey: ApiKey;
  readonly onClose: () => void;
}

function addressOfKey({ id }: ApiKey): string {
  return `/v1/keys/${encodeURIComponent(id)}`;
}

function ChangeDialog({ apiKey, onClose }: KeyDialogProps): JSX.Element {
  const change = async (values: Values) => {
    const budget = values["day_budget_usd"];
    const body: UpdateKeyBody = {
      scopes: scopesOf(values),
      day_budget_usd: budget === "" ? null : Number(budget),
    };
    const url = addressOfKey(apiKey);
    await request<{ url: string; body: UpdateKeyBody }, ApiKey>({ url, method: "PATCH", body });
    refreshTopic("key");
    onClose();
  };
  const budget = apiKey.day_budget_usd === null ? "" : String(apiKey.day_budget_usd);
  const initial = { day_budget_usd: budget, ...initialScopes((scope) => apiKey.scopes.includes(scope)) };
  return (
    <Dialog title={`Change ${apiKey.name}`} onClose={onClose}>
      <Form initial={initial} action="Save" onSubmit={change} onCancel={onClose}>
        <ScopeInputs />
        <TextInput
          name="day_budget_usd"
          label="Budget a day, in US dollars"
          hint="Empty: no limit."
          kind="number"
        />
      </Form>
    </Dialog>
  );
}

const GRACE = [
  ["300", "For 5 minutes"],
  ["3600", "For an hour"],
  ["86400", "For a day"],
  ["0", "Not at all"],
] as const;

function RotateDialog({ apiKey, onClose, onValue }: KeyDialogProps & ActionsProps): JSX.Element {
  const rotate = async ({ grace }: Values) => {
    const body = { expire_previous_seconds: Number(grace) };
    const key = await request<{ url: string; body: object }, ApiKey>({
      url: `${addressOfKey(apiKey)}/rotate`,
      body,
    });
    refreshTopic("key");
    onClose();
    onValue(key);
  };
  return (
    <Dialog title={`Rotate ${apiKey.name}`} onClose={onClose}>
      <Form initial={{ grace: "300" }} action="Rotate" onSubmit={rotate} onCancel={onClose}>
        <SelectInput name="grace" label="The present value still works" options={GRACE} />
      </Form>
    </Dialog>
  );
}

function RevokeDialog({ apiKey, onClose }: KeyDialogProps): JSX.Element {
  const revoke = async () => {
    await request<{ url: string }, unknown>({ url: addressOfKey(apiKey), method: "DELETE" });
    refreshTopic("key");
  };
  return (
    <Confirm title={`Revoke ${apiKey.name}?`} action="Revoke" onConfirm={revoke} onClose={onClose}>
      <p>
        Programs and browsers that use it are signed out within seconds. Its runs go on. This cannot be
        undone.
      </p>
    </Confirm>
  );
}

/** Providers and their models: whether they work, what they cost, a test, and which one is the default. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type {
  DetectedProviders,
  ModelTest,
  Price,
  Provider,
  ProviderList,
  ProviderModel,
  TestModelBody,
} from "../../../client/http.ts";
import { useCan } from "../../state/me.ts";
import { refreshTopic, useItem } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Badge, Button, Loading, Problem, Snippet } from "../../ui/controls.tsx";
import { attempt, Dialog, say } from "../../ui/dialog.tsx";
import { CheckInput, Form, TextInput, type Values } from "../../ui/form.tsx";
import { compactCount, cost, duration, plural } from "../../ui/format.ts";
import { Table, type Column } from "../../ui/table.tsx";
import { changeConfiguration, readConfiguration } from "./config.ts";

export function Models(): JSX.Element {
  const { item, status, problem, reload } = useItem<ProviderList>("/v1/providers?limit=100", "config");
  const canChange = useCan("admin");
  return (
    <>
      {status === "loading" ? <Loading /> : null}
      {problem ? <Problem message={problem} onRetry={reload} /> : null}
      {item?.data.map((provider) => (
        <ProviderView key={provider.id} provider={provider} />
      ))}
      {item ? <AddProvider isDemo={item.data.every(({ source }) => source === "demo")} /> : null}
      {canChange ? <Detect /> : null}
    </>
  );
}

const SOURCES: Readonly<Record<Provider["source"], string>> = {
  config: "from the configuration",
  detected: "found on this machine",
  demo: "built in",
};

function ProviderView({ provider }: { readonly provider: Provider }): JSX.Element {
  const { name, type, base_url: url, source, ready, issue, models } = provider;
  return (
    <section class="provider">
      <h2 class="section-title">
        {name}
        <Badge tone={ready ? "good" : "bad"}>{ready ? "ready" : "not ready"}</Badge>
      </h2>
      <p class="dim provider-facts">
        <span>{type}</span>
        {url === null ? null : <span>{url}</span>}
        <span>{SOURCES[source]}</span>
        <span>{provider.has_key ? "has a key" : "no key"}</span>
      </p>
      {issue === null ? null : <Problem message={issue} />}
      {models.length === 0 ? <Unlisted provider={name} /> : <ModelTable provider={name} models={models} />}
    </section>
  );
}

const COLUMNS: readonly Column<ProviderModel>[] = [
  {
    name: "Model",
    isWide: true,
    cell: ({ id, is_default: isDefault }) => (
      <>
        {id} {isDefault ? <Badge tone="busy">default</Badge> : null}
      </>
    ),
  },
  { name: "Context", align: "end", cell: ({ context_tokens: tokens }) => compactCount(tokens) },
  { name: "Input", align: "end", cell: ({ price }) => priceOf(price, "input") },
  { name: "Output", align: "end", cell: ({ price }) => priceOf(price, "output") },
];

function priceOf(price: Price | null, part: "input" | "output"): string {
  return price === null ? "unknown" : `${cost(price[part])} / M`;
}

function ModelTable({
  provider,
  models,
}: {
  readonly provider: string;
  readonly models: readonly ProviderModel[];
}): JSX.Element {
  const canTest = useCan("runs");
  const canChange = useCan("admin");
  const actions = ({ id, is_default: isDefault }: ProviderModel) => (
    <>
      {canTest ? <Test model={id} /> : null}
      {canChange && !isDefault ? (
        <Button look="quiet" onClick={() => attempt(() => makeDefault(id), `${id} is the default now.`)}>
          Use as default<span class="sr-only"> {id}</span>
        </Button>
      ) : null}
    </>
  );
  return (
    <Table
      label={`Models of ${provider}`}
      rows={models}
      columns={COLUMNS}
      {...(canTest || canChange ? { actions } : {})}
    />
  );
}

async function makeDefault(id: string): Promise<void> {
  const { version } = await readConfiguration();
  await changeConfiguration({ model: { default: id } }, version);
  refreshTopic("config");
}

function Unlisted({ provider }: { readonly provider: string }): JSX.Element {
  const canTest = useCan("runs");
  return (
    <p class="provider-facts">
      <span class="dim">This provider lists no models. Any of its models works by name.</span>
      {canTest ? <Test model={`${provider}:`} /> : null}
    </p>
  );
}

function Test({ model }: { readonly model: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        Test<span class="sr-only"> {model}</span>
      </Button>
      {isOpen ? <TestDialog model={model} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function TestDialog({
  model,
  onClose,
}: {
  readonly model: string;
  readonly onClose: () => void;
}): JSX.Element {
  const [result, setResult] = useState<ModelTest>();
  const test = async (values: Values) => {
    setResult(undefined);
    const body: TestModelBody = { model: String(values["model"]), with_tool: values["tool"] === true };
    setResult(
      await request<{ url: string; body: TestModelBody }, ModelTest>({ url: "/v1/providers/test", body }),
    );
  };
  return (
    <Dialog title="Test a model" onClose={onClose}>
      <p class="dim">
        Asks the model for one sentence, and for one tool call. It costs as much as a short answer.
      </p>
      <Form initial={{ model, tool: true }} action="Test" onSubmit={test} onCancel={onClose}>
        <TextInput name="model" label="Model" isRequired />
        <CheckInput name="tool" label="With a tool call" hint="Agents need models that call tools." />
      </Form>
      {result ? <TestResult result={result} /> : null}
    </Dialog>
  );
}

function TestResult({ result }: { readonly result: ModelTest }): JSX.Element {
  const { ok, called_tool: calledTool, text, first_token_ms: first, took_ms: took, error } = result;
  return (
    <div class="platform-result" role="status">
      <p class="provider-facts">
        <Badge tone={ok ? "good" : "bad"}>{ok ? "it answered" : "no answer"}</Badge>
        {calledTool === null ? null : (
          <Badge tone={calledTool ? "good" : "warn"}>
            {calledTool ? "it called the tool" : "it called no tool"}
          </Badge>
        )}
      </p>
      <p class="dim">
        {first === null ? "" : `First output after ${duration(first / 1_000)}, `}
        {duration(took / 1_000)} in all, {compactCount(result.usage.total_tokens)} tokens,{" "}
        {cost(result.cost_usd)}
      </p>
      {text ? <p>{text}</p> : null}
      {error === null ? null : <p class="problem-line">{error}</p>}
    </div>
  );
}

function AddProvider({ isDemo }: { readonly isDemo: boolean }): JSX.Element {
  return (
    <section class="provider">
      <h2 class="section-title">{isDemo ? "No model is configured: the demo answers" : "Add a provider"}</h2>
      <p class="dim">
        The command asks for a provider and its key, and tests it. All fields are in{" "}
        <a href="/settings/model">Model settings</a>.
      </p>
      <Snippet text="agentd setup" label="Command" />
    </section>
  );
}

function Detect(): JSX.Element {
  const [found, setFound] = useState<DetectedProviders>();
  const [isBusy, setBusy] = useState(false);
  const detect = async () => {
    setBusy(true);
    try {
      setFound(
        await request<{ url: string; body: object }, DetectedProviders>({
          url: "/v1/providers/detect",
          body: {},
        }),
      );
    } finally {
      setBusy(false);
    }
  };
  const add = async ({ name, base_url: url, models }: DetectedProviders["servers"][number]) => {
    const { version } = await readConfiguration();
    const provider = { type: "openai_compatible", base_url: url, models };
    const { restart_required: waiting } = await changeConfiguration(
      { model: { providers: { [name]: provider } } },
      version,
    );
    refreshTopic("config");
    say(waiting.length === 0 ? `${name} is added.` : `${name} is added, and works after a restart.`);
  };
  return (
    <section class="provider">
      <h2 class="section-title">Model servers on this machine</h2>
      <p class="provider-facts">
        <Button icon="search" isBusy={isBusy} onClick={() => attempt(detect)}>
          Look for servers
        </Button>
        {found?.servers.length === 0 ? <span class="dim">None answers.</span> : null}
      </p>
      {found?.servers.map((server) => (
        <p key={server.name} class="provider-facts">
          <b>{server.name}</b>
          <span class="dim">{server.base_url}</span>
          <span class="dim">{plural(server.models.length, "model")}</span>
          <Button onClick={() => attempt(() => add(server))}>
            Add<span class="sr-only"> {server.name}</span>
          </Button>
        </p>
      ))}
    </section>
  );
}

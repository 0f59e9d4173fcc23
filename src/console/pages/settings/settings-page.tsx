/** Settings: the sections of the configuration, models, keys, and browsers that are signed in. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { ConfigSchema } from "../../../client/http.ts";
import { navigate, type PageProps } from "../../router.ts";
import { useItem } from "../../state/resources.ts";
import { Loading, PageHeader, Problem } from "../../ui/controls.tsx";
import { SearchFilter } from "../../ui/filters.tsx";
import { Browsers } from "./browsers.tsx";
import { Check } from "./check.tsx";
import { ConfigForm } from "./config-form.tsx";
import { Keys } from "./keys.tsx";
import { McpServers } from "./mcp-servers.tsx";
import { Models } from "./models.tsx";
import { searched, sectionsOf, type Schema, type Section } from "./schema.ts";

/** Sections that are more than keys of the file. */
const OWN: readonly (readonly [name: string, label: string, View: () => JSX.Element])[] = [
  ["models", "Models", Models],
  ["keys", "API keys", Keys],
  ["browsers", "Signed-in browsers", Browsers],
  ["mcp-servers", "MCP servers", McpServers],
  ["check", "Check", Check],
];

export function SettingsPage({ params, query }: PageProps): JSX.Element {
  const search = query.get("q") ?? "";
  const name = params["section"] ?? "models";
  const own = search === "" ? OWN.find(([each]) => each === name) : undefined;
  const { item, problem, reload } = useItem<ConfigSchema>("/v1/config/schema", "service");
  const sections = useMemo(() => (item ? sectionsOf(item as Schema) : []), [item]);
  const Own = own?.[2];
  return (
    <>
      <PageHeader title={search ? "Settings" : `Settings: ${own?.[1] ?? labelOf(name)}`} />
      <div class="page-body settings">
        <Navigation sections={sections} name={search ? "" : name} />
        <div class="settings-content">
          {Own ? <Own /> : null}
          {!Own && problem ? <Problem message={problem} onRetry={reload} /> : null}
          {!Own && !item && !problem ? <Loading /> : null}
          {!Own && item ? <Shown sections={sections} name={name} search={search} /> : null}
        </div>
      </div>
    </>
  );
}

interface ShownProps {
  readonly sections: readonly Section[];
  readonly name: string;
  readonly search: string;
}

function Shown({ sections, name, search }: ShownProps): JSX.Element {
  const section = sections.find((each) => each.name === name);
  const all = useMemo(() => sections.flatMap(({ settings }) => settings), [sections]);
  const found = useMemo(
    () => (search ? searched(all, search) : (section?.settings ?? [])),
    [all, section, search],
  );
  if (!search && !section) return <p class="dim">The configuration has no section {name}.</p>;
  return (
    <ConfigForm
      description={search ? `${found.length} settings match.` : (section?.description ?? "")}
      all={all}
      settings={found}
    />
  );
}

function Navigation({
  sections,
  name,
}: {
  readonly sections: readonly Section[];
  readonly name: string;
}): JSX.Element {
  const entries = [
    ...OWN.map(([each, label]) => [each, label] as const),
    ...sections.map((each) => [each.name, labelOf(each.name)] as const),
  ];
  return (
    <nav class="settings-nav" aria-label="Sections">
      <SearchFilter name="q" label="Search the settings" />
      <label class="settings-choice">
        <span class="sr-only">Section</span>
        <select
          class="input"
          value={name}
          onChange={(event) => navigate(`/settings/${event.currentTarget.value}`)}
        >
          {name === "" ? <option value="">Search</option> : null}
          {entries.map(([each, label]) => (
            <option key={each} value={each}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <ul>
        {entries.map(([each, label]) => (
          <li key={each}>
            <a href={`/settings/${each}`} aria-current={each === name ? "page" : undefined}>
              {label}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

const NAMES: Readonly<Record<string, string>> = {
  api_server: "API server",
  acp: "ACP",
  mcp: "MCP",
  model: "Model settings",
};

function labelOf(name: string): string {
  const words = name.replaceAll("_", " ");
  return NAMES[name] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** All runs, newest first, followed live. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Run } from "../../client/http.ts";
import { setQuery, type PageProps } from "../router.ts";
import { useList } from "../state/resources.ts";
import { Button, Empty, PageHeader, Snippet, Time } from "../ui/controls.tsx";
import { ChoiceFilter, Filters, SearchFilter, WindowFilter, windowStart } from "../ui/filters.tsx";
import { compactCount, duration } from "../ui/format.ts";
import { RUN_STATUS_OPTIONS, RunBadge, SOURCE_OPTIONS, sourceName, titleOf } from "../ui/run-parts.tsx";
import { ListTable, type Column } from "../ui/table.tsx";

const COLUMNS: readonly Column<Run>[] = [
  { name: "Prompt", isWide: true, cell: (run) => titleOf(run) || kindWords(run.kind) },
  { name: "Status", cell: (run) => <RunBadge status={run.status} /> },
  { name: "Started by", cell: ({ source }) => (source === null ? "–" : sourceName(source)) },
  { name: "Model", cell: (run) => run.model },
  { name: "Tokens", align: "end", cell: (run) => (run.usage ? compactCount(run.usage.total_tokens) : "–") },
  { name: "Took", align: "end", cell: (run) => tookOf(run) },
  { name: "Started", align: "end", cell: (run) => <Time at={run.created_at} /> },
];

/** Filters that other pages link to, which the user can only remove. */
const GIVEN = ["model", "key"] as const;

export function RunsPage({ query }: PageProps): JSX.Element {
  const valueOf = (name: string) => query.get(name) ?? "";
  const filters = {
    q: valueOf("q"),
    status: valueOf("status"),
    source: valueOf("trigger"),
    model: valueOf("model"),
    key: valueOf("key"),
  };
  const since = query.get("since");
  const from = useMemo(() => windowStart(since), [since]);
  const runs = useList<Run>("/v1/runs", { ...filters, from }, ["run"]);
  return (
    <>
      <PageHeader title="Runs" />
      <div class="page-body">
        <Filters>
          <SearchFilter name="q" label="Search prompts and ids" />
          <ChoiceFilter name="status" label="Status" options={RUN_STATUS_OPTIONS} />
          <ChoiceFilter name="trigger" label="Started by" options={SOURCE_OPTIONS} />
          <WindowFilter name="since" label="Time" />
          {GIVEN.filter((name) => filters[name] !== "").map((name) => (
            <Button key={name} icon="close" onClick={() => setQuery({ [name]: undefined })}>
              {name} {filters[name]}
            </Button>
          ))}
        </Filters>
        <ListTable
          label="Runs"
          list={runs}
          columns={COLUMNS}
          href={(run) => `/runs/${encodeURIComponent(run.id)}`}
          isFiltered={from !== undefined || Object.values(filters).some((value) => value !== "")}
          empty={<NoRuns />}
        />
      </div>
    </>
  );
}

export function tookOf({ started_at: start, ended_at: end }: Run): string {
  return start === null || end === null ? "–" : duration(end - start);
}

function kindWords(kind: Run["kind"]): string {
  return kind === "compression" ? "Compression of the conversation" : kind;
}

function NoRuns(): JSX.Element {
  const command = [
    `curl ${location.origin}/v1/runs -H "authorization: Bearer $API_SERVER_KEY" \\`,
    `  -H "content-type: application/json" -d '{"input": "What is in this folder?"}'`,
  ].join("\n");
  return (
    <Empty icon="runs" title="No run yet">
      <p>Each message, webhook and scheduled job is a run. Start one in the chat, or over HTTP:</p>
      <Snippet text={command} label="Command" />
    </Empty>
  );
}

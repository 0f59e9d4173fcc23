/** All runs, newest first, followed live. */
import type { JSX } from "preact";
import type { Run } from "../../client/http.ts";
import type { PageProps } from "../router.ts";
import { useList } from "../state/resources.ts";
import { Empty, PageHeader, Snippet, Time } from "../ui/controls.tsx";
import { ChoiceFilter, Filters } from "../ui/filters.tsx";
import { compactCount, duration } from "../ui/format.ts";
import { RUN_STATUS_OPTIONS, RunBadge } from "../ui/run-parts.tsx";
import { ListTable, type Column } from "../ui/table.tsx";

const COLUMNS: readonly Column<Run>[] = [
  { name: "Prompt", isWide: true, cell: (run) => run.input_preview || kindWords(run.kind) },
  { name: "Status", cell: (run) => <RunBadge status={run.status} /> },
  { name: "Model", cell: (run) => run.model },
  { name: "Tokens", align: "end", cell: (run) => (run.usage ? compactCount(run.usage.total_tokens) : "–") },
  { name: "Took", align: "end", cell: (run) => tookOf(run) },
  { name: "Started", align: "end", cell: (run) => <Time at={run.created_at} /> },
];

export function RunsPage({ query }: PageProps): JSX.Element {
  const status = query.get("status") ?? "";
  const runs = useList<Run>("/v1/runs", { status }, ["run"]);
  return (
    <>
      <PageHeader title="Runs" />
      <div class="page-body">
        <Filters>
          <ChoiceFilter name="status" label="Status" options={RUN_STATUS_OPTIONS} />
        </Filters>
        <ListTable
          label="Runs"
          list={runs}
          columns={COLUMNS}
          href={(run) => `/runs/${encodeURIComponent(run.id)}`}
          isFiltered={status !== ""}
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

/** The checks of `agentd doctor`, run by the server. */
import type { JSX } from "preact";
import type { Doctor, DoctorFinding } from "../../../client/http.ts";
import { useItem } from "../../state/resources.ts";
import { Badge, Button, Loading, Problem, type Tone } from "../../ui/controls.tsx";
import { NeedsScope } from "../../ui/stats.tsx";
import { Table, type Column } from "../../ui/table.tsx";

type Row = DoctorFinding & { readonly id: string };

const STATUS: Readonly<Record<DoctorFinding["status"], readonly [Tone, string]>> = {
  ok: ["good", "fine"],
  warn: ["warn", "could be better"],
  fail: ["bad", "does not work"],
  skip: ["dim", "not checked"],
};

const COLUMNS: readonly Column<Row>[] = [
  { name: "Check", cell: ({ name }) => name },
  { name: "Result", cell: ({ status }) => <Badge tone={STATUS[status][0]}>{STATUS[status][1]}</Badge> },
  {
    name: "What was found",
    isWide: true,
    cell: ({ detail, fix }) => (
      <span class="check-words">
        {detail}
        {fix === null ? null : <b>{fix}</b>}
      </span>
    ),
  },
];

export function Check(): JSX.Element {
  return (
    <NeedsScope scope="admin" what="the checks">
      <Findings />
    </NeedsScope>
  );
}

function Findings(): JSX.Element {
  const { item, problem, reload } = useItem<Doctor>("/v1/service/doctor", ["config"]);
  const rows = (item?.findings ?? []).map((finding) => ({ ...finding, id: finding.name }));
  return (
    <>
      <p class="settings-actions">
        <Button icon="refresh" onClick={reload}>
          Check again
        </Button>
        <span class="dim">
          The same checks as <code>agentd doctor</code>. They change nothing.
        </span>
      </p>
      {problem ? <Problem message={problem} /> : null}
      {item ? <Table label="Checks" rows={rows} columns={COLUMNS} /> : problem ? null : <Loading />}
    </>
  );
}

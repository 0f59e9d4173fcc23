/** Scheduled jobs: a list, and a timeline of what ran and what will. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Job, Scheduler } from "../../../client/http.ts";
import { navigate, type PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { useItem, useList } from "../../state/resources.ts";
import { Button, Empty, Icon, IconButton, PageHeader, Snippet, Time } from "../../ui/controls.tsx";
import { attempt, say } from "../../ui/dialog.tsx";
import { ChoiceFilter, Filters, SearchFilter, Tabs } from "../../ui/filters.tsx";
import { plural } from "../../ui/format.ts";
import { ListTable, type Column } from "../../ui/table.tsx";
import { actOn, JobBadge, jobHref, LastBadge, ScheduleWords, STATE_OPTIONS } from "./job-parts.tsx";
import { Timeline } from "./timeline.tsx";

const VIEWS = [
  ["list", "List"],
  ["timeline", "Timeline"],
] as const;

export function SchedulePage({ query }: PageProps): JSX.Element {
  const canChange = useCan("jobs");
  const { item: scheduler } = useItem<Scheduler>("/v1/scheduler", ["job", "occurrence"]);
  return (
    <>
      <PageHeader
        title="Schedule"
        aside={scheduler ? <span class="dim only-wide">{scheduler.time_zone}</span> : null}
      >
        {canChange ? (
          <Button icon="plus" look="primary" onClick={() => navigate("/schedule/new")}>
            New job
          </Button>
        ) : null}
      </PageHeader>
      <div class="page-body">
        <Tabs label="View" name="view" options={VIEWS} />
        <SchedulerNote scheduler={scheduler} />
        {query.get("view") === "timeline" ? (
          <Timeline from={query.get("from")} span={query.get("span")} zone={scheduler?.time_zone} />
        ) : (
          <JobList query={query} canChange={canChange} />
        )}
      </div>
    </>
  );
}

/** Says that jobs do not run, or run late. */
function SchedulerNote({ scheduler }: { readonly scheduler: Scheduler | undefined }): JSX.Element | null {
  if (!scheduler) return null;
  const { state, late, broken } = scheduler;
  const words =
    state === "none"
      ? "No scheduler runs: jobs are kept and wait. Start `agentd gateway` with cron.enabled."
      : state === "stalled"
        ? "The scheduler has not run for a while: jobs wait until it does."
        : late.count > 0
          ? `${plural(late.count, "job")} ${late.count === 1 ? "has" : "have"} been due for more than a minute.`
          : broken > 0
            ? `${plural(broken, "job")} cannot be read, and ${broken === 1 ? "does" : "do"} not run. agentd doctor says more.`
            : "";
  if (words === "") return null;
  return (
    <p class="schedule-note" role="status">
      <Icon name="warning" />
      {words}
    </p>
  );
}

interface JobListProps {
  readonly query: URLSearchParams;
  readonly canChange: boolean;
}

function JobList({ query, canChange }: JobListProps): JSX.Element {
  const filters = { q: query.get("q") ?? "", state: query.get("state") ?? "" };
  const jobs = useList<Job>("/v1/jobs", { limit: 100, ...filters }, ["job"]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const choose = (id: string, isChosen: boolean) => {
    const next = new Set(chosen);
    if (isChosen) next.add(id);
    else next.delete(id);
    setChosen(next);
  };
  const select: Column<Job> = {
    name: "Select",
    cell: ({ id, name }) => (
      <label class="job-select">
        <span class="sr-only">Select {name}</span>
        <input
          type="checkbox"
          checked={chosen.has(id)}
          onChange={(event) => choose(id, event.currentTarget.checked)}
        />
      </label>
    ),
  };
  return (
    <>
      <Filters>
        <SearchFilter name="q" label="Search names and ids" />
        <ChoiceFilter name="state" label="State" options={STATE_OPTIONS} />
      </Filters>
      {canChange && jobs.items.length > 0 ? (
        <Bulk
          jobs={jobs.items}
          chosen={jobs.items.filter(({ id }) => chosen.has(id))}
          onChoose={(ids) => setChosen(new Set(ids))}
        />
      ) : null}
      <ListTable
        label="Jobs"
        list={jobs}
        columns={canChange ? [...COLUMNS, select] : COLUMNS}
        href={({ id }) => jobHref(id)}
        isFiltered={filters.q !== "" || filters.state !== ""}
        {...(canChange ? { actions: (job: Job) => <Actions job={job} /> } : {})}
        empty={<NoJobs canChange={canChange} />}
      />
    </>
  );
}

const COLUMNS: readonly Column<Job>[] = [
  { name: "Job", isWide: true, cell: ({ name }) => name },
  { name: "Schedule", cell: ({ schedule }) => <ScheduleWords schedule={schedule} /> },
  { name: "State", cell: ({ state }) => <JobBadge state={state} /> },
  { name: "Last run", cell: (job) => <LastRun job={job} /> },
  {
    name: "Next",
    align: "end",
    cell: ({ next_run_at: at, state }) => (state === "scheduled" ? <Time at={at} /> : "–"),
  },
];

function LastRun({ job }: { readonly job: Job }): JSX.Element {
  if (job.last_run_at === null) return <LastBadge job={job} />;
  return (
    <span class="job-last">
      <LastBadge job={job} />
      <Time at={job.last_run_at} />
    </span>
  );
}

interface BulkProps {
  readonly jobs: readonly Job[];
  readonly chosen: readonly Job[];
  readonly onChoose: (ids: readonly string[]) => void;
}

function Bulk({ jobs, chosen, onChoose }: BulkProps): JSX.Element {
  const active = chosen.filter(({ state }) => state === "scheduled");
  const paused = chosen.filter(({ state }) => state === "paused");
  const isAll = chosen.length === jobs.length;
  const change = (some: readonly Job[], verb: "pause" | "resume") =>
    attempt(async () => {
      // One after the other: a refused one is named, and the others are still changed.
      const refused: string[] = [];
      for (const { id, name } of some) {
        await actOn(id, verb).catch((error: Error) => refused.push(`${name}: ${error.message}`));
      }
      onChoose([]);
      if (refused.length > 0) throw new Error(refused.join(" "));
      say(`${plural(some.length, "job")} ${verb === "pause" ? "paused" : "resumed"}.`);
    });
  return (
    <div class="job-bulk" role="group" aria-label="Selected jobs">
      <Button look="quiet" onClick={() => onChoose(isAll ? [] : jobs.map(({ id }) => id))}>
        {isAll ? "Select none" : "Select all"}
      </Button>
      {active.length > 0 ? (
        <Button icon="pause" onClick={() => change(active, "pause")}>
          Pause {plural(active.length, "job")}
        </Button>
      ) : null}
      {paused.length > 0 ? (
        <Button icon="play" onClick={() => change(paused, "resume")}>
          Resume {plural(paused.length, "job")}
        </Button>
      ) : null}
    </div>
  );
}

function Actions({ job }: { readonly job: Job }): JSX.Element {
  const { id, name, state } = job;
  return (
    <>
      {state === "scheduled" ? (
        <IconButton icon="pause" label={`Pause ${name}`} onClick={() => attempt(() => actOn(id, "pause"))} />
      ) : null}
      {state === "paused" ? (
        <IconButton icon="play" label={`Resume ${name}`} onClick={() => attempt(() => actOn(id, "resume"))} />
      ) : null}
      <IconButton
        icon="bolt"
        label={`Run ${name} now`}
        onClick={() => attempt(() => actOn(id, "run"), `${name} runs now.`)}
      />
    </>
  );
}

function NoJobs({ canChange }: { readonly canChange: boolean }): JSX.Element {
  return (
    <Empty icon="schedule" title="No job yet">
      <p>
        A job gives the agent a prompt at set times, and delivers the answer to a chat, a mailbox or a file.
      </p>
      {canChange ? (
        <Button look="primary" icon="plus" onClick={() => navigate("/schedule/new")}>
          Create a job
        </Button>
      ) : null}
      <p>or, in a terminal:</p>
      <Snippet label="Command" text="agentd cron create 'every 1h' 'Say what changed in this folder.'" />
    </Empty>
  );
}

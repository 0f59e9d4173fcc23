/** One job: its definition with a preview while it is typed, what it does next, and what it did. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type {
  CreateJobData,
  DeleteJobData,
  Job,
  Occurrence,
  UpdateJobBody,
  UpdateJobData,
} from "../../../client/http.ts";
import { AgentApiError } from "../../../client/request.ts";
import { navigate, type PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { forgetItem, refreshTopic, useItem, useList } from "../../state/resources.ts";
import { request, signedFetch } from "../../state/session.ts";
import { Button, Loading, PageHeader, Problem, Time } from "../../ui/controls.tsx";
import { attempt, Confirm, Dialog, say } from "../../ui/dialog.tsx";
import { duration } from "../../ui/format.ts";
import { CheckInput, Form, SelectInput, TextInput, type Values } from "../../ui/form.tsx";
import { Facts, ListTable, type Column } from "../../ui/table.tsx";
import { noteOf } from "./job-marks.ts";
import {
  actOn,
  DueTime,
  JobBadge,
  jobHref,
  LastBadge,
  OccurrenceBadge,
  ScheduleWords,
} from "./job-parts.tsx";
import { SchedulePreview, wallTime } from "./preview.tsx";

const BACK = { href: "/schedule", label: "All jobs" };

export function JobPage({ params }: PageProps): JSX.Element {
  const id = params["job"] ?? "";
  return id === "new" ? <NewJob /> : <KnownJob key={id} id={id} />;
}

function NewJob(): JSX.Element {
  const empty = valuesOf();
  return (
    <>
      <PageHeader title="New job" back={BACK} />
      <div class="page-body">
        <JobForm
          initial={empty}
          action="Create the job"
          onSave={async (values) => {
            const body = { schedule: String(values["schedule"]), ...changesOf(empty, values) };
            const job = await request<CreateJobData, Job>({ url: "/v1/jobs", body });
            refreshTopic("job");
            navigate(jobHref(job.id), { replace: true });
            say("Created.");
          }}
        />
      </div>
    </>
  );
}

function KnownJob({ id }: { readonly id: string }): JSX.Element {
  const {
    item: job,
    status,
    problem,
    reload,
  } = useItem<Job>(`/v1/jobs/${encodeURIComponent(id)}`, ["job", "occurrence"]);
  const canChange = useCan("jobs");
  if (!job) {
    return (
      <>
        <PageHeader title="Job" back={BACK} />
        <div class="page-body">
          {status === "failed" ? <Problem message={problem} onRetry={reload} /> : <Loading />}
        </div>
      </>
    );
  }
  return (
    <>
      <PageHeader title={job.name} back={BACK} aside={<JobBadge state={job.state} />}>
        {canChange ? <Actions job={job} /> : null}
      </PageHeader>
      <div class="page-body">
        {job.last_error === null ? null : <Problem message={job.last_error} />}
        {job.last_delivery_error === null ? null : (
          <Problem message={`Not delivered: ${job.last_delivery_error}`} />
        )}
        {canChange ? <EditJob key={job.id} job={job} /> : <ShownJob job={job} />}
        <History id={id} zone={job.time_zone} />
      </div>
    </>
  );
}

interface JobProps {
  readonly job: Job;
}

/** What a key sees that may not change jobs. */
function ShownJob({ job }: JobProps): JSX.Element {
  return (
    <>
      <Facts
        facts={[
          ["Schedule", <ScheduleWords schedule={job.schedule} />],
          ["Zone", job.time_zone],
          ["Next", job.next_run_at === null ? null : <Time at={job.next_run_at} />],
          ["Last run", <LastBadge job={job} />],
          ["Answers go to", job.deliver],
        ]}
      />
      <ol class="preview-times" aria-label="Next times">
        {(job.next_runs ?? []).map((each) => (
          <li key={each.scheduled_at}>{wallTime(each)}</li>
        ))}
      </ol>
      <pre class="output" tabIndex={0} aria-label="Prompt">
        {job.prompt}
      </pre>
    </>
  );
}

/** The form keeps what is typed when the job changes elsewhere, and says that it did. */
function EditJob({ job }: JobProps): JSX.Element {
  const [base, setBase] = useState(job);
  const before = valuesOf(base);
  // Pausing and resuming change the revision, too, and nothing that is edited here.
  const isSame = JSON.stringify(valuesOf(job)) === JSON.stringify(before);
  return (
    <>
      {!isSame && job.revision > base.revision ? (
        <p class="schedule-note" role="status">
          Somebody else has changed this job.
          <Button onClick={() => setBase(job)}>Show the current version</Button>
        </p>
      ) : null}
      <JobForm
        key={base.revision}
        initial={before}
        action="Save"
        onSave={async (values) => {
          const changes = changesOf(before, values);
          if (Object.keys(changes).length === 0) return say("Nothing was changed.");
          setBase(await save(isSame ? job : base, changes));
          refreshTopic("job");
          say("Saved.");
        }}
      />
    </>
  );
}

async function save({ id, revision }: Job, body: UpdateJobBody): Promise<Job> {
  try {
    return await request<UpdateJobData, Job>({
      url: "/v1/jobs/{job_id}",
      method: "PATCH",
      path: { job_id: id },
      headers: { "if-match": `"${revision}"` },
      body,
    });
  } catch (error) {
    if (!(error instanceof AgentApiError) || error.status !== 412) throw error;
    refreshTopic("job");
    throw new Error("Somebody else has changed this job. Show the current version, then change it again.", {
      cause: error,
    });
  }
}

const MISSED = [
  ["", "as the configuration says"],
  ["true", "run once, late"],
  ["false", "leave it out"],
] as const;
const OVERLAP = [
  ["skip", "skip the new run"],
  ["allow", "run both"],
] as const;

function valuesOf(job?: Job): Values {
  return {
    name: job?.name ?? "",
    schedule: job?.schedule ?? "",
    time_zone: job?.time_zone ?? "",
    prompt: job?.prompt ?? "",
    deliver: job?.deliver ?? "local",
    failure_deliver: job?.failure_deliver ?? "",
    catch_up: job?.catch_up == null ? "" : String(job.catch_up),
    overlap: job?.overlap ?? "skip",
    repeat: job?.repeat.times == null ? "" : String(job.repeat.times),
    model: job?.model ?? "",
    skills: job?.skills.join(", ") ?? "",
    script: job?.script ?? "",
    no_agent: job?.no_agent ?? false,
    workdir: job?.workdir ?? "",
  };
}

/** Returns the fields whose values differ, as the API takes them; an empty one is null, its default. */
function changesOf(before: Values, after: Values): UpdateJobBody {
  const changed = Object.entries(after).filter(([name, value]) => value !== before[name]);
  return Object.fromEntries(changed.map(([name, value]) => [name, fieldOf(name, value)]));
}

function fieldOf(name: string, value: string | boolean): unknown {
  if (typeof value === "boolean") return value;
  const text = value.trim();
  if (text === "") return null;
  if (name === "catch_up") return text === "true";
  if (name === "repeat") return Number(text);
  if (name === "skills") return text.split(/[\s,]+/).filter((word) => word !== "");
  return name === "prompt" ? value : text;
}

interface JobFormProps {
  readonly initial: Values;
  readonly action: string;
  readonly onSave: (values: Values) => Promise<void>;
}

function JobForm({ initial, action, onSave }: JobFormProps): JSX.Element {
  return (
    <div class="job-form">
      <Form initial={initial} action={action} onSubmit={onSave}>
        {(values) => (
          <>
            <div class="job-when">
              <TextInput
                name="schedule"
                label="Schedule"
                isRequired
                placeholder="weekdays at 9am"
                hint="every 2h, in 45m, weekdays at 9am, 0 9 * * 1-5, or 2026-12-24T18:00"
              />
              <TextInput
                name="time_zone"
                label="Time zone"
                placeholder="of the configuration"
                hint="Such as Europe/Paris"
              />
              <SchedulePreview schedule={String(values["schedule"])} zone={String(values["time_zone"])} />
            </div>
            <TextInput name="prompt" label="Prompt" kind="long" placeholder="Summarize what is new." />
            <TextInput name="name" label="Name" placeholder="the start of the prompt" />
            <TextInput
              name="deliver"
              label="Where the answer goes"
              hint="local is a file only; or addresses such as telegram:-100123, separated by commas"
            />
            <More />
          </>
        )}
      </Form>
    </div>
  );
}

function More(): JSX.Element {
  return (
    <details class="webhook-more">
      <summary>Missed times, repeats, model and more</summary>
      <div class="form job-more">
        <SelectInput name="catch_up" label="When a time was missed" options={MISSED} />
        <SelectInput name="overlap" label="While the last run still works" options={OVERLAP} />
        <TextInput name="repeat" label="Number of runs" kind="number" placeholder="no limit" />
        <TextInput name="model" label="Model" placeholder="the default model" hint="provider:model" />
        <TextInput name="failure_deliver" label="Where failures go" placeholder="where answers go" />
        <TextInput name="skills" label="Skills" hint="Names, separated by commas" />
        <TextInput name="workdir" label="Folder" hint="Where the agent works; inside the allowed folders" />
        <TextInput name="script" label="Script" hint="A file in the folder scripts that runs first" />
        <CheckInput name="no_agent" label="The output of the script is the message" />
      </div>
    </details>
  );
}

function Actions({ job }: JobProps): JSX.Element {
  const { id, name, state } = job;
  const [isDeleting, setDeleting] = useState(false);
  return (
    <>
      <Button icon="bolt" onClick={() => attempt(() => actOn(id, "run"), "It runs now.")}>
        Run now
      </Button>
      {state === "scheduled" ? (
        <Button icon="pause" onClick={() => attempt(() => actOn(id, "pause"))}>
          Pause
        </Button>
      ) : null}
      {state === "paused" ? (
        <Button icon="play" onClick={() => attempt(() => actOn(id, "resume"))}>
          Resume
        </Button>
      ) : null}
      <Button icon="trash" look="danger" onClick={() => setDeleting(true)}>
        Delete
      </Button>
      {isDeleting ? (
        <Confirm
          title={`Delete the job ${name}?`}
          action="Delete"
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            forgetItem(`/v1/jobs/${encodeURIComponent(id)}`);
            await request<DeleteJobData, unknown>({
              url: "/v1/jobs/{job_id}",
              path: { job_id: id },
              method: "DELETE",
            });
            navigate("/schedule", { replace: true });
            refreshTopic("job");
          }}
        >
          <p>
            Its history and the files of its outputs are deleted, too. A run that has begun ends normally.
          </p>
        </Confirm>
      ) : null}
    </>
  );
}

const historyOf = (zone: string): readonly Column<Occurrence>[] => [
  { name: "Due", cell: (occurrence) => <DueTime at={occurrence.scheduled_at} zone={zone} /> },
  { name: "Result", cell: (occurrence) => <OccurrenceBadge occurrence={occurrence} /> },
  { name: "Why", isWide: true, cell: (occurrence) => noteOf(occurrence) || causeWords(occurrence) },
  {
    name: "Took",
    align: "end",
    cell: ({ started_at: start, ended_at: end }) =>
      start === null || end === null ? "–" : duration(end - start),
  },
  {
    name: "Run",
    cell: ({ run_id: runId }) =>
      runId === null ? "–" : <a href={`/runs/${encodeURIComponent(runId)}`}>Open</a>,
  },
];

function causeWords({ cause }: Occurrence): ComponentChildren {
  if (cause === "schedule") return <span class="dim">–</span>;
  return <span class="dim">{cause === "manual" ? "run by hand" : "another attempt"}</span>;
}

interface HistoryProps {
  readonly id: string;
  readonly zone: string;
}

function History({ id, zone }: HistoryProps): JSX.Element {
  const list = useList<Occurrence>("/v1/occurrences", { job_id: id, limit: 20 }, ["occurrence"]);
  return (
    <section class="schedule-section">
      <h2>History</h2>
      <ListTable
        label="History"
        list={list}
        columns={historyOf(zone)}
        actions={(occurrence) => (occurrence.has_output ? <Output occurrence={occurrence} /> : null)}
        empty={<p class="dim">It has not run yet.</p>}
      />
    </section>
  );
}

/** The document with the prompt and the answer. */
function Output({ occurrence }: { readonly occurrence: Occurrence }): JSX.Element {
  const [text, setText] = useState<string>();
  const show = async () => {
    const response = await signedFetch(`/v1/occurrences/${encodeURIComponent(occurrence.id)}/output`);
    if (!response.ok) throw new Error("The output is no longer kept on this machine.");
    setText(await response.text());
  };
  return (
    <>
      <Button look="quiet" onClick={() => attempt(show)}>
        Output
      </Button>
      {text === undefined ? null : (
        <Dialog title="Output" size="wide" onClose={() => setText(undefined)}>
          <pre class="output" tabIndex={0} aria-label="Output">
            {text}
          </pre>
        </Dialog>
      )}
    </>
  );
}

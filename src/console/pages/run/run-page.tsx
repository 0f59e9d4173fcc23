/** One run: what it cost and led to, and its steps on a timeline. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Message, MessageList, Occurrence, Run, RunTrace } from "../../../client/http.ts";
import { streamRunEvents } from "../../../client/streams.ts";
import type { PageProps } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { refreshTopic, useItem } from "../../state/resources.ts";
import { request, signedFetch } from "../../state/session.ts";
import { Button, Loading, PageHeader, Problem, Time, useNow } from "../../ui/controls.tsx";
import { attempt } from "../../ui/dialog.tsx";
import { compactCount, cost, duration } from "../../ui/format.ts";
import { RunBadge, sourceName, titleOf } from "../../ui/run-parts.tsx";
import { Stats } from "../../ui/stats.tsx";
import { Facts } from "../../ui/table.tsx";
import { RunAgain } from "./run-again.tsx";
import { TraceView } from "./trace-view.tsx";

export function RunPage({ params, query }: PageProps): JSX.Element {
  const id = params["run"] ?? "";
  const address = `/v1/runs/${encodeURIComponent(id)}`;
  const { item: run, status, problem, reload } = useItem<Run>(address, "run", id);
  return (
    <>
      <PageHeader title={run ? titleOf(run) || "Run" : "Run"} back={{ href: "/runs", label: "All runs" }}>
        {run ? <Actions run={run} /> : null}
      </PageHeader>
      <div class="page-body">
        {status === "loading" ? <Loading /> : null}
        {problem ? <Problem message={problem} onRetry={reload} /> : null}
        {run ? <RunView run={run} step={query.get("step")} /> : null}
      </div>
    </>
  );
}

function RunView({ run, step }: { readonly run: Run; readonly step: string | null }): JSX.Element {
  const address = `/v1/runs/${encodeURIComponent(run.id)}/trace?include=content`;
  const { item: trace, problem, reload } = useItem<RunTrace>(address, "run", run.id);
  useSteps(run, reload);
  return (
    <>
      <Summary run={run} />
      {run.status === "waiting_for_approval" ? (
        <p class="run-waiting">
          This run waits for an answer. <a href="/approvals">Answer it</a>
        </p>
      ) : null}
      {run.error ? <Problem message={run.error.message} /> : null}
      {problem ? <Problem message={problem} onRetry={reload} /> : null}
      {trace ? <TraceView trace={trace} chosen={step} /> : <Loading />}
      <Origin run={run} />
      {run.output ? (
        <section class="run-output">
          <h2 class="section-title">Answer</h2>
          <pre class="output" tabIndex={0} aria-label="Answer">
            {run.output}
          </pre>
        </section>
      ) : null}
    </>
  );
}

const STEP_EVENTS: ReadonlySet<string> = new Set([
  "tool.started",
  "tool.completed",
  "usage.updated",
  "message.started",
  "approval.request",
  "approval.responded",
  "subagent.start",
  "subagent.complete",
]);
const GATHER_MS = 200;

/** The feed names runs that change, not their steps: those of a run at work come from its own events. */
function useSteps(run: Run, reload: () => void): void {
  const isOver = run.ended_at !== null;
  useEffect(() => {
    if (isOver) return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const follow = async () => {
      const options = { baseUrl: location.origin, fetch: signedFetch };
      for await (const { event } of streamRunEvents(options, run.id, {
        after: run.last_seq,
        signal: stop.signal,
      })) {
        if (!STEP_EVENTS.has(event)) continue;
        timer ??= setTimeout(() => {
          timer = undefined;
          reload();
        }, GATHER_MS);
      }
    };
    // The feed still says when the run ends.
    follow().catch(() => {});
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [run.id, isOver]);
}

function Summary({ run }: { readonly run: Run }): JSX.Element {
  const { usage } = run;
  const now = useNow(1_000) / 1_000;
  const took = (run.ended_at ?? Math.max(now, run.created_at)) - run.created_at;
  const cached = usage?.cached_input_tokens ?? 0;
  return (
    <Stats
      label="Summary"
      stats={[
        { name: "Status", value: <RunBadge status={run.status} />, note: <Time at={run.created_at} /> },
        { name: "Duration", value: duration(took), note: run.ended_at === null ? "so far" : undefined },
        { name: "Model calls", value: usage?.model_calls ?? "–", note: run.model },
        { name: "Tool calls", value: usage?.tool_calls ?? "–" },
        {
          name: "Tokens",
          value: usage ? compactCount(usage.total_tokens) : "–",
          note: usage
            ? `${compactCount(usage.input_tokens)} in${cached > 0 ? ` (${compactCount(cached)} cached)` : ""}, ${compactCount(usage.output_tokens)} out`
            : undefined,
        },
        { name: "Cost", value: usage ? cost(usage.cost_usd) : "–" },
      ]}
    />
  );
}

/** Where the run comes from, and what it led to. */
function Origin({ run }: { readonly run: Run }): JSX.Element {
  const canReadLog = useCan("admin");
  return (
    <section class="run-origin">
      <h2 class="section-title">Belongs to</h2>
      <Facts
        facts={[
          ["Session", <a href={`/chat/${encodeURIComponent(run.session_id)}`}>{run.session_id}</a>],
          [
            "Webhook delivery",
            run.delivery_id && <a href={`/webhooks/deliveries/${run.delivery_id}`}>{run.delivery_id}</a>,
          ],
          ["Scheduled job", run.occurrence_id && <Job occurrenceId={run.occurrence_id} />],
          ["Parent run", run.parent_id && <a href={`/runs/${run.parent_id}`}>{run.parent_id}</a>],
          ["Messages", <Messages runId={run.id} />],
          ["Started by", run.source === null ? null : sourceName(run.source)],
          ["Key", run.key],
          ["Log", canReadLog && <a href={`/logs?run=${run.id}`}>Lines of this run</a>],
          ["Run", <code>{run.id}</code>],
        ]}
      />
    </section>
  );
}

function Job({ occurrenceId }: { readonly occurrenceId: string }): JSX.Element {
  const { item } = useItem<Occurrence>(
    `/v1/occurrences/${encodeURIComponent(occurrenceId)}`,
    "occurrence",
    occurrenceId,
  );
  if (!item) return <span>{occurrenceId}</span>;
  return <a href={`/schedule/${encodeURIComponent(item.job_id)}`}>{item.job_id}</a>;
}

function Messages({ runId }: { readonly runId: string }): JSX.Element {
  const { item } = useItem<MessageList>(`/v1/outbox?ref=${encodeURIComponent(runId)}`, "message");
  if (!item || item.data.length === 0) return <span class="dim">none</span>;
  return (
    <>
      {item.data.map(({ id, platform, status }: Message) => (
        <a key={id} class="run-message" href={`/outbox/${encodeURIComponent(id)}`}>
          {platform} {status}
        </a>
      ))}
    </>
  );
}

function Actions({ run }: { readonly run: Run }): JSX.Element {
  const canRun = useCan("runs");
  const stop = async () => {
    await request<{ url: string; body: object }, unknown>({
      url: `/v1/runs/${encodeURIComponent(run.id)}/stop`,
      body: {},
    });
    refreshTopic("run");
  };
  return (
    <>
      {canRun && run.ended_at === null ? (
        <Button icon="stop" aria-label="Stop" disabled={run.stop_requested} onClick={() => attempt(stop)}>
          <span class="only-wide">Stop</span>
        </Button>
      ) : null}
      <RunAgain run={run} />
    </>
  );
}

/** The steps of a run on a timeline, and one of them in full. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { RunStep, RunTrace } from "../../../client/http.ts";
import { setQuery } from "../../router.ts";
import { Badge, Copy, Icon, useNow, type Tone } from "../../ui/controls.tsx";
import { compactCount, cost, duration } from "../../ui/format.ts";
import type { IconName } from "../../ui/icons.ts";
import { Facts } from "../../ui/table.tsx";
import { timelineOf, type Bar, type Mark } from "./timeline.ts";

const KINDS: Readonly<Record<RunStep["kind"], readonly [IconName, string]>> = {
  queue: ["queue", "Waited for its turn"],
  model: ["model", "Model call"],
  tool: ["tool", "Tool call"],
  question: ["approvals", "Question"],
  subagent: ["bot", "Sub-agent"],
  compression: ["bolt", "Compression"],
  other: ["clock", "Other"],
};

const STATUS: Readonly<Record<RunStep["status"], readonly [Tone, string]>> = {
  running: ["busy", "running"],
  ok: ["good", "ok"],
  error: ["bad", "failed"],
  denied: ["bad", "denied"],
  aborted: ["dim", "stopped"],
  expired: ["warn", "expired"],
};

interface TraceProps {
  readonly trace: RunTrace;
  /** Id of the step that is shown in full. */
  readonly chosen: string | null;
}

export function TraceView({ trace, chosen }: TraceProps): JSX.Element {
  const isRunning = trace.ended_at === null;
  const now = useNow(isRunning ? 1_000 : 60_000) / 1_000;
  const { bars, marks } = useMemo(() => timelineOf(trace, now), [trace, isRunning ? now : 0]);
  return (
    <section class="trace" aria-label="Timeline">
      <div class="trace-axis" aria-hidden="true">
        {marks.map((mark) => (
          <span key={mark.seconds} class="trace-mark" style={{ left: percent(mark.left) }}>
            {mark.seconds === 0 ? "0 s" : duration(mark.seconds)}
          </span>
        ))}
      </div>
      <ol class="trace-steps" aria-label="Steps">
        {bars.map((bar) => (
          <Step key={bar.step.id} bar={bar} marks={marks} isOpen={bar.step.id === chosen} />
        ))}
      </ol>
      {trace.is_truncated ? (
        <p class="trace-note">Some events of this run are no longer kept: steps may be missing.</p>
      ) : null}
    </section>
  );
}

function percent(part: number): string {
  return `${(part * 100).toFixed(3)}%`;
}

interface StepProps {
  readonly bar: Bar;
  readonly marks: readonly Mark[];
  readonly isOpen: boolean;
}

function Step({ bar, marks, isOpen }: StepProps): JSX.Element {
  const { step, depth } = bar;
  const [icon, kind] = KINDS[step.kind];
  const isFine = step.status === "ok";
  return (
    <li class={`trace-step ${isOpen ? "trace-open" : ""}`} data-step={step.id}>
      <button
        type="button"
        class="trace-row"
        aria-expanded={isOpen}
        onClick={() => setQuery({ step: isOpen ? undefined : step.id })}
      >
        <span class={`trace-name trace-depth-${depth}`}>
          <Icon name={icon} />
          <span class="trace-label">
            <span class="sr-only">{kind} </span>
            {nameOf(step)}{" "}
            {step.kind === "tool" && step.preview ? <span class="dim">{step.preview}</span> : null}
          </span>
          {isFine ? null : <Badge tone={STATUS[step.status][0]}>{STATUS[step.status][1]}</Badge>}
        </span>
        <span class="trace-track" aria-hidden="true">
          {marks.map(({ seconds, left }) => (
            <span key={seconds} class="trace-line" style={{ left: percent(left) }} />
          ))}
          <BarView bar={bar} />
        </span>
        <span class="trace-numbers">
          <span>{duration(bar.duration)}</span>
          <span class="dim">{numbersOf(step)}</span>
        </span>
      </button>
      {isOpen ? <Details bar={bar} /> : null}
    </li>
  );
}

function BarView({ bar }: { readonly bar: Bar }): JSX.Element {
  const { step, left, width, waiting } = bar;
  return (
    <span
      class={`trace-bar trace-bar-${step.kind} trace-bar-${step.status}`}
      style={{ left: percent(left), width: percent(width) }}
    >
      {step.kind === "model" && waiting !== undefined ? (
        <span class="trace-waiting" style={{ width: percent(waiting) }} />
      ) : null}
    </span>
  );
}

function nameOf({ kind, name }: RunStep): string {
  if (kind === "queue" || kind === "other" || kind === "compression") return KINDS[kind][1];
  return name;
}

function numbersOf({ usage }: RunStep): string {
  if (!usage) return "";
  const tokens = `${compactCount(usage.input_tokens + usage.output_tokens)} tokens`;
  return usage.cost_usd === null ? tokens : `${tokens}, ${cost(usage.cost_usd)}`;
}

function Details({ bar: { step, start, duration: took } }: { readonly bar: Bar }): JSX.Element {
  const { usage, first_output_seconds: first } = step;
  const [tone, word] = STATUS[step.status];
  return (
    <div class="trace-details">
      <Facts
        facts={[
          ["Step", KINDS[step.kind][1]],
          ["Result", <Badge tone={tone}>{word}</Badge>],
          ["Began after", duration(start)],
          ["Took", `${duration(took)} (${Math.round(took * 1_000).toLocaleString()} ms)`],
          ["First output after", step.kind === "model" && first !== null ? duration(first) : null],
          [
            "Input tokens",
            usage && `${usage.input_tokens.toLocaleString()}${cachedWords(usage.cached_input_tokens)}`,
          ],
          ["Output tokens", usage?.output_tokens.toLocaleString()],
          ["Cost", usage && cost(usage.cost_usd)],
          ["Attempts", usage && usage.model_calls > 1 ? usage.model_calls : null],
          ["Run", step.run_id && <a href={`/runs/${encodeURIComponent(step.run_id)}`}>{step.run_id}</a>],
          ["Text", step.kind === "tool" ? null : step.preview],
        ]}
      />
      {step.kind === "tool" ? (
        <div class="trace-content">
          <Content label="Input" text={textOf(step.arguments)} />
          <Content label="Output" text={outputOf(step)} isError={step.status === "error"} />
        </div>
      ) : null}
    </div>
  );
}

function cachedWords(count: number): string {
  return count === 0 ? "" : ` (${count.toLocaleString()} cached)`;
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function outputOf({ result, omitted_characters: omitted }: RunStep): string {
  if (result === null) return "";
  return omitted > 0 ? `… ${omitted.toLocaleString()} characters before this\n${result}` : result;
}

interface ContentProps {
  readonly label: string;
  readonly text: string;
  readonly isError?: boolean;
}

function Content({ label, text, isError = false }: ContentProps): JSX.Element {
  return (
    <div>
      <div class="trace-content-head">
        <h3>{label}</h3>
        {text === "" ? null : <Copy text={text} />}
      </div>
      {text === "" ? (
        <p class="dim">Nothing is kept.</p>
      ) : (
        <pre class={`output ${isError ? "output-error" : ""}`} tabIndex={0} aria-label={label}>
          {text}
        </pre>
      )}
    </div>
  );
}

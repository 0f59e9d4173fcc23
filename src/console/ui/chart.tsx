/** Lines or bars over time, drawn by uPlot, which loads when the first chart is shown. A table beside it has the same numbers. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { theme } from "../state/preferences.ts";
import { useStore } from "../state/store.ts";

export interface Series {
  readonly name: string;
  /** One number for each time; null is a gap. */
  readonly values: readonly (number | null)[];
  /** How a value is written, such as a price. */
  readonly format: (value: number) => string;
  /** A custom property of the page. Default: the next colour of charts. */
  readonly colour?: string;
}

interface ChartProps {
  readonly label: string;
  /** Unix seconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly height?: number;
  /** `days`: one bar for each day (UTC), the series on top of each other. Default: lines. */
  readonly look?: "lines" | "days";
}

/** Custom properties of the page, so that charts follow its colours. */
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5"];
const HEIGHT = 220;
const HALF_DAY = 43_200;
const BAR_WIDTH = 0.6;
const MAX_BAR_PIXELS = 48;
const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

export function Chart({ label, times, series, height = HEIGHT, look = "lines" }: ChartProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const colours = useStore(theme, (value) => value);
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    const box = frame.current;
    if (!box) return undefined;
    let plot: uPlot | undefined;
    let isShown = true;
    const observer = new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height }));
    void import("uplot").then(({ default: Plot }) => {
      if (!isShown) return;
      const options =
        look === "days" ? barsOf(Plot, box, { series, height }) : optionsOf(box, { series, height });
      const hooks = { setCursor: [(one: uPlot) => setAt(one.cursor.idx ?? null)] };
      plot = new Plot(
        { ...options, hooks },
        look === "days" ? stacked(times, series) : dataOf(times, series),
        box,
      );
      observer.observe(box);
    });
    return () => {
      isShown = false;
      observer.disconnect();
      plot?.destroy();
    };
  }, [times, series, colours, height, look]);
  return (
    <figure class="chart">
      <figcaption class="chart-label">{label}</figcaption>
      <div ref={frame} class="chart-frame" aria-hidden="true" />
      <Legend times={times} series={series} look={look} at={at} />
      <ChartTable label={label} times={times} series={series} look={look} />
    </figure>
  );
}

function dataOf(times: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  return [[...times], ...series.map(({ values }) => [...values])];
}

/** The highest first: each series then covers what belongs to those above it. */
function stacked(times: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  const sums = times.map(() => 0);
  const rows = series.map(({ values }) =>
    values.map((value, index) => (sums[index] = (sums[index] ?? 0) + (value ?? 0))),
  );
  return [[...times], ...rows.toReversed()];
}

/** Bars of days, as {@link stacked} orders them. */
function barsOf(
  { paths, tzDate }: typeof uPlot,
  box: HTMLElement,
  { series, height }: { readonly series: readonly Series[]; readonly height: number },
): uPlot.Options {
  const lines = optionsOf(box, { series, height });
  const bars = paths.bars?.({ size: [BAR_WIDTH, MAX_BAR_PIXELS] });
  const [x = {}, ...drawn] = lines.series;
  const stack = drawn.map((one) => ({
    ...one,
    ...(bars ? { paths: bars } : {}),
    fill: one.stroke as string,
    width: 0,
  }));
  return {
    ...lines,
    tzDate: (seconds) => tzDate(new Date(seconds * 1_000), "Etc/UTC"),
    scales: {
      x: { range: (_, first, last) => [first - HALF_DAY, last + HALF_DAY] },
      y: { range: (_, __, highest) => [0, highest > 0 ? highest * 1.08 : 1] },
    },
    axes: lines.axes?.map((axis, index) => (index === 0 ? { ...axis, values: dayWords } : axis)) ?? [],
    series: [x, ...stack.toReversed()],
  };
}

const shortDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

/** Names whole days only: a chart of two days has no use for their hours. */
function dayWords(_: uPlot, seconds: readonly number[]): (string | null)[] {
  return seconds.map((at) => (at % (2 * HALF_DAY) === 0 ? shortDay.format(at * 1_000) : null));
}

/** Distances of the lines of a scale that counts: half a run has no line, which would be named like a whole one. */
const WHOLE_STEPS = Array.from({ length: 15 }, (_, power) =>
  [1, 2, 5].map((step) => step * 10 ** power),
).flat();

function optionsOf(
  box: HTMLElement,
  { series, height }: { readonly series: readonly Series[]; readonly height: number },
): uPlot.Options {
  const style = getComputedStyle(box);
  const colour = (name: string) => resolved(box, name);
  const axis = { stroke: style.color, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const [first] = series;
  const isWhole = series.every(({ values }) => values.every((value) => Number.isInteger(value ?? 0)));
  return {
    width: box.clientWidth,
    height,
    legend: { show: false },
    cursor: { y: false },
    axes: [
      axis,
      {
        ...axis,
        size: 64,
        values: (_, all) => all.map((value) => first?.format(value) ?? String(value)),
        ...(isWhole ? { incrs: WHOLE_STEPS } : {}),
      },
    ],
    series: [
      {},
      ...series.map((each, index) => ({
        label: each.name,
        stroke: colour(colourOf(each, index)),
        width: 2,
        points: { show: false },
      })),
    ],
  };
}

function colourOf({ colour }: Series, index: number): string {
  return colour ?? COLOURS[index % COLOURS.length] ?? "--accent";
}

type LegendProps = Pick<ChartProps, "times" | "series" | "look"> & {
  /** Index of the time under the pointer. */
  readonly at: number | null;
};

/** What the colours mean, and the values under the pointer. The table has them for everyone. */
function Legend({ times, series, look, at }: LegendProps): JSX.Element {
  const time = at === null ? undefined : times[at];
  const words = look === "days" ? dayFormat : dateFormat;
  return (
    <p class="chart-legend" aria-hidden="true">
      {series.map(({ name, values, format, ...rest }, index) => {
        const value = at === null ? undefined : values[at];
        const place = COLOURS.indexOf(colourOf({ name, values, format, ...rest }, index)) + 1;
        return (
          <span key={name} class={`chart-key chart-key-${place}`}>
            {name}
            {value === null || value === undefined ? null : <b> {format(value)}</b>}
          </span>
        );
      })}
      {time === undefined ? null : <span>{words.format(time * 1_000)}</span>}
    </p>
  );
}

/** A canvas does not know `light-dark()`: the browser says which colour it is now. */
function resolved(box: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  box.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function ChartTable({ label, times, series, look }: Omit<ChartProps, "height">): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="chart-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {isOpen ? (
        <div class="table-frame">
          <table class="table" aria-label={label}>
            <thead>
              <tr>
                <th>{look === "days" ? "Day (UTC)" : "Time"}</th>
                {series.map(({ name }) => (
                  <th key={name} class="table-end">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times.map((time, index) => (
                <tr key={time}>
                  <td>{(look === "days" ? dayFormat : dateFormat).format(time * 1_000)}</td>
                  {series.map(({ name, values, format }) => {
                    const value = values[index];
                    return (
                      <td key={name} class="table-end">
                        {value === null || value === undefined ? "–" : format(value)}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </details>
  );
}

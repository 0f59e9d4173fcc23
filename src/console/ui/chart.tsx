/** Lines over time, drawn by uPlot, which loads when the first chart is shown. The same numbers stand in a table beside it. */
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
}

interface ChartProps {
  readonly label: string;
  /** Unix seconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly height?: number;
}

/** Custom properties of the page, so that charts follow its colours. */
const COLOURS = ["--accent", "--good", "--warn", "--bad", "--muted"];
const HEIGHT = 220;
const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function Chart({ label, times, series, height = HEIGHT }: ChartProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const colours = useStore(theme, (value) => value);
  useEffect(() => {
    const box = frame.current;
    if (!box) return undefined;
    let plot: uPlot | undefined;
    let isShown = true;
    const observer = new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height }));
    void import("uplot").then(({ default: Plot }) => {
      if (!isShown) return;
      plot = new Plot(optionsOf(box, { series, height }), dataOf(times, series), box);
      observer.observe(box);
    });
    return () => {
      isShown = false;
      observer.disconnect();
      plot?.destroy();
    };
  }, [times, series, colours, height]);
  return (
    <figure class="chart">
      <figcaption class="chart-label">{label}</figcaption>
      <div ref={frame} class="chart-frame" aria-hidden="true" />
      <ChartTable label={label} times={times} series={series} />
    </figure>
  );
}

function dataOf(times: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  return [[...times], ...series.map(({ values }) => [...values])];
}

function optionsOf(
  box: HTMLElement,
  { series, height }: { readonly series: readonly Series[]; readonly height: number },
): uPlot.Options {
  const style = getComputedStyle(box);
  const colour = (name: string) => resolved(box, name);
  const axis = { stroke: style.color, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const [first] = series;
  return {
    width: box.clientWidth,
    height,
    legend: { show: series.length > 1 },
    cursor: { y: false },
    axes: [
      axis,
      { ...axis, size: 64, values: (_, all) => all.map((value) => first?.format(value) ?? String(value)) },
    ],
    series: [
      {},
      ...series.map(({ name, format }, index) => ({
        label: name,
        stroke: colour(COLOURS[index % COLOURS.length] ?? "--accent"),
        width: 2,
        points: { show: false },
        value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
      })),
    ],
  };
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

function ChartTable({ label, times, series }: Omit<ChartProps, "height">): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="chart-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {isOpen ? (
        <div class="table-frame">
          <table class="table" aria-label={label}>
            <thead>
              <tr>
                <th>Time</th>
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
                  <td>{dateFormat.format(time * 1_000)}</td>
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

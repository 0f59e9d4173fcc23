import type { Figures } from "./report.ts";

const WIDTH = 900;
const LINE = 18;
const LABEL = 470;
const TOP = 40;
/** Ratios beyond these are drawn at the edge. */
const DECADES = { from: -2, to: 2 };

/** A chart of all ratios, as bars from the control at 1 on a logarithmic scale. SVG that needs no style sheet. */
export function toChart(figures: Figures): string {
  const rows = Object.values(figures).flatMap(({ rows: all }) =>
    all.flatMap(({ name, ratio, met }) => (ratio === undefined ? [] : [{ name: name.trim(), ratio, met }])),
  );
  const height = TOP + rows.length * LINE + 10;
  const bars = rows.map(({ name, ratio, met }, index) => {
    const [y, at] = [TOP + index * LINE, toX(ratio)];
    const colour = met === undefined ? "#7a869a" : met ? "#2e7d4f" : "#c0392b";
    const label = name.length > MAX_LABEL ? `${name.slice(0, MAX_LABEL - 1)}…` : name;
    return [
      `<text x="${LABEL - 8}" y="${y + 12}" text-anchor="end">${escaped(label)}</text>`,
      `<rect x="${Math.min(at, ONE)}" y="${y + 2}" width="${Math.max(1, Math.abs(at - ONE))}" height="12" fill="${colour}"/>`,
      `<text x="${Math.max(at, ONE) + 4}" y="${y + 12}">${ratio.toFixed(2)}x</text>`,
    ].join("");
  });
  const grid = [0.01, 0.1, 1, 10, 100].map(
    (ratio) =>
      `<line x1="${toX(ratio)}" x2="${toX(ratio)}" y1="${TOP - 6}" y2="${height - 6}" stroke="#c9d1da"/><text x="${toX(ratio)}" y="${TOP - 12}" text-anchor="middle">${ratio}x</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="11">`,
    `<title>The ratio of each row to its control: green met its goal, red did not, grey has none</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...grid,
    ...bars,
    "</svg>\n",
  ].join("\n");
}

const MAX_LABEL = 78;
const ONE = toX(1);

function toX(ratio: number): number {
  const { from, to } = DECADES;
  const decade = Math.min(to, Math.max(from, Math.log10(ratio)));
  return Math.round(LABEL + ((decade - from) / (to - from)) * (WIDTH - LABEL - 60));
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Draws the screen of a terminal as an SVG that reads well on light and dark pages. Pure; needs no dependency. */

interface Style {
  readonly color: string;
  readonly bold: boolean;
  readonly dim: boolean;
}

interface Run {
  readonly column: number;
  readonly text: string;
  readonly style: Style;
}

export interface PictureOptions {
  readonly title: string;
  readonly columns: number;
  /** What the picture shows, for people who cannot see it. */
  readonly description: string;
}

const PLAIN: Style = { color: "", bold: false, dim: false };
const COLORS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
/** Of each class: the colour on light pages, and on dark ones. */
const PALETTE: Readonly<Record<string, readonly [light: string, dark: string]>> = {
  back: ["#ffffff", "#0d1117"],
  line: ["#d0d7de", "#30363d"],
  text: ["#1f2328", "#e6edf3"],
  dim: ["#656d76", "#8b949e"],
  black: ["#24292f", "#6e7681"],
  red: ["#cf222e", "#ff7b72"],
  green: ["#116329", "#3fb950"],
  yellow: ["#9a6700", "#d29922"],
  blue: ["#0969da", "#58a6ff"],
  magenta: ["#8250df", "#bc8cff"],
  cyan: ["#1b7c83", "#39c5cf"],
  white: ["#57606a", "#e6edf3"],
};
const [COLUMN, ROW, SIZE, MARGIN, BAR] = [8.4, 20, 14, 18, 36];

/** Returns the SVG of a screen: lines with the escape sequences of colours and weights. */
export function drawTerminal(screen: string, { title, columns, description }: PictureOptions): string {
  const rows = readRuns(screen);
  const width = Math.ceil(columns * COLUMN + 2 * MARGIN);
  const height = BAR + rows.length * ROW + 2 * MARGIN - 6;
  const dots = ["red", "yellow", "green"].map(
    (color, at) => `<circle class="${color}" cx="${20 + at * 18}" cy="18" r="5"/>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escape(description)}</title>`,
    `<style>${stylesheet()}</style>`,
    `<rect class="back frame" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>`,
    ...dots,
    `<text class="dim" x="${width / 2}" y="23" text-anchor="middle">${escape(title)}</text>`,
    ...rows.map((runs, row) => drawRow(runs, BAR + MARGIN + row * ROW + 8)),
    "</svg>\n",
  ]
    .filter((line) => line !== "")
    .join("\n");
}

function drawRow(runs: readonly Run[], y: number): string {
  return runs
    .filter(({ text }) => text.trim() !== "")
    .map((run) => drawRun(run, y))
    .join("");
}

function drawRun({ column, text, style }: Run, y: number): string {
  const indent = text.length - text.trimStart().length;
  const x = (MARGIN + (column + indent) * COLUMN).toFixed(1);
  const classes = [style.color, style.dim ? "dim" : "", style.bold ? "bold" : ""].filter(
    (each) => each !== "",
  );
  const name = classes.length === 0 ? "" : ` class="${classes.join(" ")}"`;
  const shown = text.trim();
  const length = shown.length > 1 ? ` textLength="${(shown.length * COLUMN).toFixed(1)}"` : "";
  return `<text${name} x="${x}" y="${y}"${length}>${escape(shown)}</text>`;
}

/** Reads the escape sequences of a screen; a style lasts over the end of a line. */
function readRuns(screen: string): readonly (readonly Run[])[] {
  let style = PLAIN;
  return screen.split("\n").map((line) => {
    const runs: Run[] = [];
    let column = 0;
    // oxlint-disable-next-line no-control-regex -- the sequences begin with a control character
    for (const [, codes, text = ""] of line.matchAll(/\x1b\[([\d;]*)m|([^\x1b]+)/g)) {
      if (codes !== undefined) style = applyCodes(style, codes);
      else runs.push({ column, text, style });
      column += text.length;
    }
    return runs;
  });
}

function applyCodes(before: Style, codes: string): Style {
  let style = before;
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) style = PLAIN;
    else if (code === 1) style = { ...style, bold: true };
    else if (code === 2) style = { ...style, dim: true };
    else if (code === 22) style = { ...style, bold: false, dim: false };
    else if (code === 39) style = { ...style, color: "" };
    else if (code >= 30 && code <= 37) style = { ...style, color: COLORS[code - 30] ?? "" };
    else if (code >= 90 && code <= 97) style = { ...style, color: COLORS[code - 90] ?? "" };
  }
  return style;
}

function stylesheet(): string {
  const rules = (at: 0 | 1) =>
    Object.entries(PALETTE)
      .map(([name, colors]) => `${name === "text" ? "text" : `.${name}`}{fill:${colors[at]}}`)
      .join("") + `.frame{stroke:${PALETTE["line"]?.[at]}}`;
  const font = `text{font:${SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}`;
  return `${font}.bold{font-weight:600}${rules(0)}@media(prefers-color-scheme:dark){${rules(1)}}`;
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

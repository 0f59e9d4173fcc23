/** A strict reader of the Prometheus text format 0.0.4: what it does not know, it refuses. */

export interface ExpositionSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ExpositionFamily {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly samples: readonly ExpositionSample[];
}

/** Every family by its name. Throws on anything that is not as the format says, or twice. */
export function parseExposition(text: string): ReadonlyMap<string, ExpositionFamily> {
  if (text !== "" && !text.endsWith("\n")) throw new Error("the last line has no end");
  const families = new Map<string, ExpositionFamily>();
  const seen = new Set<string>();
  let current: (ExpositionFamily & { samples: ExpositionSample[] }) | undefined;
  let help: { name: string; text: string } | undefined;
  for (const line of text.split("\n").slice(0, -1)) {
    const helpLine = /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ((?:[^\\]|\\\\|\\n)*)$/.exec(line);
    const typeLine = /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)$/.exec(line);
    if (helpLine) {
      help = { name: helpLine[1]!, text: unescape(helpLine[2]!) };
    } else if (typeLine) {
      const [, name = "", type] = typeLine;
      if (help?.name !== name) throw new Error(`${name} has no help`);
      if (families.has(name)) throw new Error(`${name} comes twice`);
      current = { name, help: help.text, type: type as ExpositionFamily["type"], samples: [] };
      families.set(name, current);
    } else {
      const sample = parseSample(line);
      if (!current || !belongs(sample.name, current)) throw new Error(`${line} stands in no family`);
      const key = JSON.stringify([sample.name, Object.entries(sample.labels).toSorted()]);
      if (seen.has(key)) throw new Error(`${line} comes twice`);
      seen.add(key);
      current.samples.push(sample);
    }
  }
  for (const family of families.values()) check(family);
  return families;
}

/** The value of a sample; its labels must be just these. */
export function sampleValue(
  families: ReadonlyMap<string, ExpositionFamily>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const wanted = JSON.stringify(Object.entries(labels).toSorted());
  return [...families.values()]
    .flatMap((family) => family.samples)
    .find((one) => one.name === name && JSON.stringify(Object.entries(one.labels).toSorted()) === wanted)
    ?.value;
}

function belongs(name: string, { name: family, type }: ExpositionFamily): boolean {
  if (type !== "histogram") return name === family;
  return [`${family}_bucket`, `${family}_sum`, `${family}_count`].includes(name);
}

function parseSample(line: string): ExpositionSample {
  const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.+)\})? (\S+)$/.exec(line);
  if (!match) throw new Error(`no sample: ${line}`);
  const [, name = "", set = "", value = ""] = match;
  return { name, labels: parseLabels(set), value: parseNumber(value) };
}

function parseLabels(set: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {};
  let rest = set;
  while (rest !== "") {
    const match = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\\\|\\n|\\")*)"(?:,(?=.)|$)/.exec(rest);
    if (!match) throw new Error(`no labels: ${set}`);
    const [whole, name = "", value = ""] = match;
    if (name in labels) throw new Error(`the label ${name} comes twice: ${set}`);
    labels[name] = unescape(value);
    rest = rest.slice(whole.length);
  }
  return labels;
}

function parseNumber(text: string): number {
  if (text === "+Inf") return Infinity;
  if (text === "-Inf") return -Infinity;
  if (text === "NaN") return Number.NaN;
  if (!/^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/.test(text)) throw new Error(`no number: ${text}`);
  return Number(text);
}

function unescape(text: string): string {
  return text.replace(/\\(.)/g, (_, what: string) => (what === "n" ? "\n" : what));
}

/** Counters do not go below zero; the buckets of a histogram rise to its count. */
function check({ name, type, samples }: ExpositionFamily): void {
  if (type === "counter" && samples.some(({ value }) => !(value >= 0)))
    throw new Error(`${name} is negative`);
  if (type !== "histogram") return;
  const bySet = Map.groupBy(samples, ({ labels: { le: _, ...rest } }) => JSON.stringify(rest));
  for (const set of bySet.values()) {
    const buckets = set.filter((sample) => sample.name === `${name}_bucket`);
    const bounds = buckets.map(({ labels }) => parseNumber(labels["le"] ?? "none"));
    const values = buckets.map(({ value }) => value);
    const count = set.find((sample) => sample.name === `${name}_count`)?.value;
    const isRising = (list: readonly number[]) =>
      list.every((value, at) => at === 0 || value >= list[at - 1]!);
    if (bounds.at(-1) !== Infinity || !isRising(bounds) || !isRising(values) || values.at(-1) !== count) {
      throw new Error(`the buckets of ${name} do not add up`);
    }
    if (!set.some((sample) => sample.name === `${name}_sum`)) throw new Error(`${name} has no sum`);
  }
}

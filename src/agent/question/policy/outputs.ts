/** Output of harmless commands: names and numbers that a pipeline or substitution passes to other commands. Pure. */
import { ANY, BELOW, isConstant, NAME, nameMatches, PLAIN, type Output } from "./words.ts";

const UNKNOWN = [ANY];
/** Secret names that a pattern of `find` may match although they begin with a dot. */
const hiddenNames = ".env .env.local .envrc .netrc .npmrc .pgpass .git-credentials .my.cnf .htpasswd".split(
  " ",
);

/** Returns whether a program passes lines of its input on unchanged. */
export function keepsLines(program: string, fields: readonly string[], operands: readonly string[]): boolean {
  if (!fields.every(isConstant)) return false;
  if (/^(sort|uniq|tac|shuf)$/.test(program))
    return operands.length === 0 && !fields.some((field) => /^-\w*[oic]|^--/.test(field));
  if (/^(head|tail)$/.test(program))
    return (
      operands.every((operand) => /^\d+$/.test(operand)) && !fields.some((field) => /^-\w*c|^--/.test(field))
    );
  return (
    /^[ef]?grep$/.test(program) &&
    operands.length === 1 &&
    fields.every((field) => !field.startsWith("-") || /^-[vixwEFe]+$/.test(field))
  );
}

type Printer = (
  fields: readonly string[],
  operands: readonly string[],
  folders: readonly string[],
) => Output | undefined;

const number: Printer = () => ({ names: [PLAIN] });
const below = (roots: readonly string[]): Output => ({
  names: (roots.length === 0 ? ["."] : roots).map((root) => `${root}/${BELOW}`),
});

/** Returns the folders that `find` searches: its words before the first option or condition. */
export function rootsOf(fields: readonly string[]): readonly string[] {
  const end = fields.findIndex((field) => /^[-(!]/.test(field));
  return end === -1 ? fields : fields.slice(0, end);
}

/** Returns the names that `find` may print, as a pattern for each folder. */
export function namesFound(fields: readonly string[]): readonly string[] {
  const roots = rootsOf(fields).length === 0 ? ["."] : rootsOf(fields);
  if (roots.some((root) => root.includes(ANY))) return UNKNOWN;
  const pattern =
    fields.includes("-o") || !fields.includes("-name") ? undefined : fields[fields.indexOf("-name") + 1];
  if (pattern === undefined || !isConstant(pattern)) return roots.map((root) => `${root}/${BELOW}`);
  const name = pattern.replace(/[*?]|\[[^\]]*\]/g, NAME);
  // Unlike the shell's patterns, those of find also match a leading dot.
  const isKnownName =
    name.startsWith(NAME) && hiddenNames.some((hidden) => nameMatches(`_${name}`, `_${hidden}`));
  return isKnownName ? UNKNOWN : roots.map((root) => `${root}/${BELOW}/${name}`);
}

/** The output of harmless commands, as far as it is known. */
export const printers: ReadonlyMap<string, Printer> = new Map<string, Printer>(
  Object.entries({
    echo: (fields) => {
      const words = fields.filter((field, index) => index > 0 || !/^-[neE]+$/.test(field));
      const isRaw = !fields.some((field) => /^-\w*e/.test(field));
      return isRaw && fields.every(isConstant) ? { text: words.join(" ") } : undefined;
    },
    printf: (fields) => {
      const [format = "", ...rest] = fields;
      if (!fields.every(isConstant) || format.startsWith("-")) return undefined;
      if (/^%s(\\n)?$/.test(format) && rest.length === 1) return { text: rest[0] ?? "" };
      const text = format.replace(/\\n$/, "");
      return /[%\\]/.test(text) ? undefined : { text };
    },
    pwd: (_fields, _operands, folders) => (folders.length === 1 ? { text: folders[0] ?? "" } : undefined),
    date: (fields) => {
      const format = fields.find((field) => field.startsWith("+"));
      if (!fields.every(isConstant)) return undefined;
      const text = format?.slice(1).replace(/%[-_0^#]*\d*[EO]?[a-zA-Z:]/g, PLAIN);
      return { text: text ?? PLAIN };
    },
    nproc: number,
    seq: (fields) => (fields.every((field) => /^-?[\d.]+$/.test(field)) ? { names: [PLAIN] } : undefined),
    id: (fields) => (fields.every((field) => /^-[ugGn]+$/.test(field)) ? { text: PLAIN } : undefined),
    whoami: (fields) => (fields.length === 0 ? { text: PLAIN } : undefined),
    hostname: (fields) => (fields.length === 0 ? { text: PLAIN } : undefined),
    uname: (fields) => (fields.every(isConstant) ? { text: PLAIN } : undefined),
    wc: (fields) => (fields.every((field) => /^-[lwc]+$/.test(field)) ? { names: [PLAIN] } : undefined),
    mktemp: (fields) =>
      fields.every((field) => /^-[dqu]+$/.test(field)) ? { text: `/tmp/${PLAIN}` } : undefined,
    ls: (fields, operands) => {
      if (fields.some((field) => /^-\w*[aAflRgonis]|^--/.test(field))) return undefined;
      const isOfPatterns = operands.length > 0 && operands.every((operand) => operand.includes(NAME));
      return { names: isOfPatterns ? operands : [NAME, ...operands] };
    },
    find: (fields) => {
      const starts = fields.some((field) => /^-(exec|ok|printf|fprint|files0)/.test(field));
      return starts ? undefined : { names: namesFound(fields) };
    },
    fd: () => below([]),
    git: ([subcommand, ...rest]) => {
      const lists = subcommand === "ls-files" || (subcommand === "diff" && rest.includes("--name-only"));
      return lists ? below([]) : undefined;
    },
    rg: (fields, operands) => {
      if (fields.includes("--files")) return below(operands);
      return fields.some((field) => /^(-l|--files-with-matches)$/.test(field))
        ? below(operands.slice(1))
        : undefined;
    },
    grep: (fields, operands) => {
      const lists = fields.some((field) => /^-[rRniEF]*l[rRniEF]*$/.test(field));
      return lists && !fields.some((field) => /^-[ef]/.test(field)) ? below(operands.slice(1)) : undefined;
    },
  } satisfies Record<string, Printer>),
);

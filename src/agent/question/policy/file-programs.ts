/** Programs that change files: inside the workspace they run, as long as nothing is deleted and nothing is obeyed later. */
import { findOption, operandsOf, valuesOfOption, type Call, type Rule } from "./program.ts";
import { ANY, hasAny, isConstant, NAME } from "./words.ts";

/** `rm`: named files of the workspace ask once a session; trees, patterns and what lies elsewhere each time. */
export const remove: Rule = (call) => {
  const { args, name } = call;
  const options = args.filter((arg) => /^-./.test(arg) && arg !== "--");
  const targets = operandsOf(args);
  const isRecursive = options.some((option) => /^-[a-zA-Z]*[rR]|^--r/.test(option));
  if (options.some((option) => option.startsWith("--no-p")))
    call.deny("rm --no-preserve-root is never meant");
  if (isRecursive && targets.some((target) => call.isVital(target)))
    call.deny("it would delete a vital folder");
  for (const target of targets) call.write(target);
  const areas = call.areasOf(targets);
  const isSure = args.every(isConstant);
  if (isRecursive)
    return call.ask(
      `${name} ${options.join(" ")} deletes folders for good`,
      "destructive",
      isSure ? `rm ${options.join(" ")} ${areas}` : undefined,
    );
  if (targets.some((target) => !isConstant(target)))
    return call.ask(
      "rm with a pattern may delete more than meant",
      "destructive",
      targets.some(hasAny) ? undefined : `rm * ${areas}`,
    );
  call.ask(`${name} deletes files for good`, "deletion", `rm files ${areas}`);
};

/** `cp`, `mv` and `install`: the last word, or the value of -t, is written; the others are read. */
export const copy: Rule = (call) => {
  const { args, name } = call;
  const known =
    /^(-[abdfiLnPpRrTuvxsHlc]+|-t.*|--(archive|recursive|force|interactive|no-clobber|verbose|update|preserve|parents|target-directory|no-target-directory|backup|reflink|symbolic-link|link|dereference|no-dereference|help|version)(=.*)?|--|-[mogDCS].*|--(mode|directory)(=.*)?)$/;
  const strange =
    findOption(args, /./) === undefined ? undefined : args.find((arg) => /^-./.test(arg) && !known.test(arg));
  if (strange !== undefined) call.ask(`${name} ${strange} is not known`);
  const given = valuesOfOption(args, "t", ["--target-directory"]);
  const operands = operandsOf(args);
  const isTree = findOption(args, /^-[a-zA-Z]*[arR]|^--(recursive|archive)/) !== undefined;
  const sources = given.length > 0 ? operands : operands.slice(0, -1);
  for (const target of given.length > 0 ? given : operands.slice(-1)) {
    call.write(target);
    // The file may go into a folder under its own name.
    for (const source of sources) call.write(`${target}/${source.split("/").at(-1) ?? ""}`);
  }
  for (const source of sources) {
    if (isTree) call.readTree(source);
    else call.read(source);
    if (name === "mv") call.write(source);
  }
};

/** `ln` makes another name for what it links to: for reading and for writing. */
export const link: Rule = (call) => {
  const operands = operandsOf(call.args);
  const given = valuesOfOption(call.args, "t", ["--target-directory"]);
  const sources = given.length > 0 || operands.length === 1 ? operands : operands.slice(0, -1);
  for (const source of sources) {
    call.readTree(source);
    if (call.isOutside(source)) call.write(source);
  }
  for (const target of given.length > 0 ? given : operands.length > 1 ? operands.slice(-1) : ["."])
    call.write(target);
};

/** `mkdir`, `touch`, `tee` and others that write what each of their words names. */
export const writeAll: Rule = (call) => {
  call.changes();
  const strange =
    call.name === "tee" ? findOption(call.args, /^--?(?!(a|i|p|ai|append|ignore-interrupts)$)/) : undefined;
  if (strange !== undefined) call.ask(`${call.name} ${strange} is not known`);
  for (const target of operandsOf(call.args)) call.write(target);
  for (const source of valuesOfOption(call.args, "r", ["--reference"]))
    if (call.name === "touch") call.stat(source);
};

/** `chmod` of files of the workspace. */
export const chmod: Rule = (call) => {
  const { args } = call;
  call.changes();
  if (findOption(args, /^(-[a-zA-Z]*R|--recursive)$/))
    call.ask("chmod -R changes the rights of many files", "system");
  const operands = args.filter((arg) => !/^-(R|c|f|v)+$|^--/.test(arg));
  if (operands.slice(0, 1).some((mode) => /^(0?[2467]\d{3}|[ugoa]*[+=][rwxXt]*s[a-z]*)$/.test(mode)))
    call.ask("chmod lets a program run as another user", "escalating");
  for (const target of operands.slice(1)) call.write(target);
};

/** `tar`, `zip` and others: listing reads, packing takes in trees, unpacking writes what nobody has seen. */
export const archive: Rule = (call) => {
  const { args, name } = call;
  const [bundle = "", ...rest] = args;
  const lists = /^-?[a-zA-Z]*t[a-zA-Z]*$/.test(bundle) || args.includes("--list");
  if (name === "unzip" && findOption(args, /^-[lZtvz1]+$/)) return args.forEach((arg) => call.read(arg));
  if (name === "zipinfo") return args.forEach((arg) => call.read(arg));
  const isTar = name.endsWith("tar");
  const known =
    /^(-?[a-zA-Z]*|--(create|list|gzip|bzip2|xz|zstd|verbose|file|exclude|directory|auto-compress|totals|exclude-vcs)(=.*)?|-C.*)$/;
  const strange = isTar
    ? args.find((arg) => arg.startsWith("-") && (!known.test(arg) || /^-[a-zA-Z]*[IFPT]/.test(arg)))
    : findOption(args, /^-(TT|F|.*I|-unzip-c)/);
  call.changes();
  if (strange !== undefined || (isTar && /^[a-zA-Z]*[IFPT]/.test(bundle)))
    return call.ask(`${name} ${strange ?? bundle} may start other programs or write anywhere`);
  if (isTar && lists) return rest.forEach((arg) => call.read(arg));
  const packs = isTar ? /^-?[a-zA-Z]*c/.test(bundle) || args.includes("--create") : name === "zip";
  const folders = valuesOfOption(args, isTar ? "C" : name === "unzip" ? "d" : "", ["--directory"]);
  if (packs) return pack(call, isTar ? folders : []);
  for (const folder of folders) call.write(folder);
  for (const arg of args) call.read(arg);
  call.ask(`${name} unpacks files that nobody has seen, over those that are there`, "code");
};

function pack(call: Call, folders: readonly string[]): void {
  const words = call.args
    .filter((_arg, index) => index > 0 || call.name === "zip")
    .filter((arg) => !/^-./.test(arg));
  const [bundle = ANY, ...sources] = words;
  if (bundle !== "-") call.write(bundle);
  for (const source of sources) call.readTree(source);
  for (const folder of folders) call.readTree(folder);
}

/** `gzip` and others replace the file by a packed or unpacked one. */
export const compress: Rule = (call) => {
  const toOutput = findOption(call.args, /^-[a-zA-Z0-9]*[clt]|^--(stdout|list|test)/) !== undefined;
  for (const file of operandsOf(call.args)) call.read(file);
  if (toOutput || operandsOf(call.args).length === 0) return;
  for (const file of operandsOf(call.args)) call.write(file);
};

/** `rsync` between folders of this machine. */
export const synchronize: Rule = (call) => {
  const { args } = call;
  call.changes();
  const risky = args.find((arg) =>
    /^(--del|--rsh|--remove-source|--files-from|--log-file|--write-batch)|^-[a-zA-Z]*e|:/.test(arg),
  );
  if (risky !== undefined)
    call.ask(`rsync ${risky} deletes files, starts a program or reaches another machine`, "outward");
  const operands = operandsOf(args);
  for (const target of operands.slice(-1)) call.write(target);
  for (const source of operands.slice(0, -1)) call.readTree(source);
};

/** `split` and `csplit`: pieces under a name that they are given. */
export const splitFile: Rule = (call) => {
  call.changes();
  if (findOption(call.args, /^--filter/)) call.ask(`${call.name} --filter starts other programs`);
  const operands = operandsOf(call.args);
  call.read(operands[0] ?? "-");
  call.write(operands.length > 1 ? (operands.at(-1) ?? ANY) : "x");
};

/** `mktemp` makes a file or folder in the temporary folder, or where its pattern says. */
export const makeTemporary: Rule = (call) => {
  call.changes();
  for (const place of valuesOfOption(call.args, "p", ["--tmpdir"]))
    call.write(place === ANY ? "/tmp" : place);
  for (const pattern of operandsOf(call.args)) call.write(pattern.replace(/X{3,}/, NAME));
};

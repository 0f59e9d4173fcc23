/** Programs that fetch: which requests run without approval, and which send too much. */
import type { Call, Rule } from "./program.ts";
import { ANY, isConstant } from "./words.ts";

/** Longer addresses could carry private data out; the same limits as web_fetch. */
const MAX_QUERY_CHARACTERS = 200;
const MAX_PATH_CHARACTERS = 500;

interface Fetcher {
  /** Letters of harmless options, with a value and without. */
  readonly values: string;
  readonly flags: string;
  readonly longValues: ReadonlySet<string>;
  readonly longFlags: ReadonlySet<string>;
  /** Options whose value is a file to write. */
  readonly outputs: ReadonlySet<string>;
}

const set = (words: string): ReadonlySet<string> => new Set(words.split(" "));

const fetchers: Readonly<Record<string, Fetcher>> = {
  curl: {
    values: "AHmywrCY",
    flags: "sSLfIivgGkNnR0123456#ZajlqO",
    longValues: set(
      "--user-agent --header --max-time --connect-timeout --retry --retry-delay --retry-max-time --write-out --range --max-filesize --max-redirs --limit-rate --referer --url --speed-limit --speed-time",
    ),
    longFlags: set(
      "--silent --show-error --location --fail --fail-with-body --head --include --verbose --globoff --insecure --no-buffer --compressed --http1.1 --http2 --http3 --ipv4 --ipv6 --progress-bar --no-progress-meter --remote-name --remote-time --retry-connrefused --retry-all-errors --get --disable --parallel --version --help --tlsv1.2 --tlsv1.3 --create-dirs --continue-at",
    ),
    outputs: set("-o --output --output-dir -D --dump-header"),
  },
  wget: {
    values: "TtUwQ",
    flags: "qvdcNS46",
    longValues: set(
      "--timeout --tries --user-agent --header --wait --quota --connect-timeout --read-timeout --max-redirect",
    ),
    longFlags: set(
      "--quiet --verbose --no-verbose --continue --timestamping --server-response --no-check-certificate --spider --show-progress --inet4-only --inet6-only --version --help --no-clobber",
    ),
    outputs: set("-O --output-document -P --directory-prefix -o --output-file -a --append-output"),
  },
};

/** `curl` and `wget`: public pages, under the rules of web_fetch, into the workspace. */
export const fetchPage: Rule = (call) => {
  const { name, args } = call;
  const fetcher = fetchers[name];
  if (!fetcher) return;
  if (args.length > 0 && args.every((arg) => /^(--version|-V|--help|-h)$/.test(arg))) return;
  call.changes();
  for (const arg of args) if (isConstant(arg) && !arg.includes("://")) call.read(arg);
  if (!args.every(isConstant))
    return call.ask(`${name} sends data that is only known at run time to another machine`, "outward");
  const deletes = args.some(
    (arg, index) =>
      /^(-[a-zA-Z]*X|--request=|--method=)DELETE$|^DELETE$/i.test(arg) &&
      (arg.length > 6 || /^(-[a-zA-Z]*X|--request|--method)$/.test(args[index - 1] ?? "")),
  );
  if (deletes) return call.ask(`${name} deletes something on another machine`, "destructive");
  const addresses = readWords(call, fetcher);
  if (addresses === undefined) return;
  for (const address of addresses) checkAddress(call, address);
  if (isSavedByName(name, args)) for (const address of addresses) call.write(savedName(address));
};

/** Returns whether a page is written to a file named after the address. */
function isSavedByName(name: string, args: readonly string[]): boolean {
  if (name === "curl") return args.some((arg) => /^-[a-zA-Z#]*O|^--remote-name$/.test(arg));
  return !args.some((arg) => /^(-[a-zA-Z]*O|--output-document|--spider)/.test(arg));
}

const savedName = (address: string): string =>
  address
    .replace(/[?#].*$/s, "")
    .replace(/^[a-z]+:\/\/[^/]*/i, "")
    .split("/")
    .at(-1) || "index.html";

/** Returns the addresses among the words; undefined when an option does more than fetch. */
function readWords(call: Call, fetcher: Fetcher): readonly string[] | undefined {
  const { name, args } = call;
  const addresses: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? "";
    if (!word.startsWith("-") || word === "-") {
      addresses.push(word);
      continue;
    }
    const option = readOption(word, fetcher);
    if (option === undefined) {
      call.ask(`${name} ${word} may send data to another machine, or change something there`, "outward");
      return undefined;
    }
    if (option.value === "none") continue;
    const value = option.attached ?? args[(at += 1)] ?? ANY;
    if (option.value === "output" && value !== "-") call.write(value);
    if (option.value === "plain" && !isPlainValue(word, value)) {
      call.ask(`${name} ${word} may send data to another machine`, "outward");
      return undefined;
    }
    if (word === "--url") addresses.push(value);
  }
  return addresses;
}

interface Option {
  readonly value: "none" | "plain" | "output";
  readonly attached: string | undefined;
}

function readOption(
  word: string,
  { values, flags, longValues, longFlags, outputs }: Fetcher,
): Option | undefined {
  if (word.startsWith("--")) {
    const [name = "", attached] = word.split(/=(.*)/s);
    if (outputs.has(name)) return { value: "output", attached };
    if (longValues.has(name)) return { value: "plain", attached };
    return longFlags.has(name) ? { value: "none", attached: undefined } : undefined;
  }
  // Letters may be combined; the value of the last one follows them.
  for (let at = 1; at < word.length; at += 1) {
    const letter = word[at] ?? "";
    const attached = word.slice(at + 1) || undefined;
    if (outputs.has(`-${letter}`)) return { value: "output", attached };
    if (values.includes(letter)) return { value: "plain", attached };
    if (letter === "n" && word === "-nv") continue;
    if (!flags.includes(letter)) return undefined;
  }
  return { value: "none", attached: undefined };
}

/** A header may name a file, and long values may carry private data. */
const isPlainValue = (option: string, value: string): boolean =>
  isConstant(value) &&
  value.length <= MAX_QUERY_CHARACTERS &&
  !value.startsWith("@") &&
  !/cookie/i.test(option);

function checkAddress(call: Call, address: string): void {
  const url = URL.parse(
    /^[a-z][a-z0-9+.-]*:/i.test(address) && !/^[\w.-]+:\d/.test(address) ? address : `http://${address}`,
  );
  if (!url || !/^https?:$/.test(url.protocol))
    return call.ask(`${call.name} ${address} is not a web page`, "outward");
  if (url.username !== "" || url.password !== "")
    return call.ask(`${call.name} signs in at ${url.hostname}`, "outward");
  if (/^(169\.254\.169\.254|metadata\.google\.internal)$/.test(url.hostname))
    return call.ask("it asks the cloud for the machine's credentials", "sensitive");
  // As in web_fetch: an address whose last label is numeric is not a public name.
  if (
    url.port !== "" ||
    !/\.[a-z][a-z0-9-]*\.?$/i.test(url.hostname) ||
    /\.(local|internal|lan|home|corp|localhost)\.?$/i.test(url.hostname)
  )
    return call.ask(`${call.name} reaches ${url.host}, which is not a public address`, "local");
  if (url.search.length > MAX_QUERY_CHARACTERS || url.pathname.length > MAX_PATH_CHARACTERS)
    call.ask(`${call.name} sends a long text to ${url.hostname} in the address`, "outward");
}

/**
 * `node scripts/foreign-clients.ts [name...]`: makes clients of generated/specs/http.openapi.json with generators that
 * are not ours, compiles them, and lets each make calls to the built program: a chat, a run, and jobs of the control API.
 * Prints a table, and fails when one of them fails or lacks an operation. Installs the pinned generators below
 * AGENTD_FOREIGN_CACHE (default: ~/.cache/agentd-foreign-clients).
 */
import { spawn } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { text as readText } from "node:stream/consumers";
import { exists } from "./lib/files.ts";
import { repository } from "./lib/redocly.ts";

const SPEC = join(repository, "generated/specs/http.openapi.json");
const CACHE = process.env["AGENTD_FOREIGN_CACHE"] ?? join(homedir(), ".cache/agentd-foreign-clients");
const STEP_TIMEOUT_MS = 300_000;
/** The demo model runs the command and repeats its output. */
const PROMPT = "run: echo foreign-$((40 + 2))";
const EXPECTED = /foreign-42[^]*^created \d{10}\.?\d*\njob foreign-\w+ scheduled 1$/m;

interface Generator {
  readonly name: string;
  readonly version: string;
  /** The program without which the row is left out. */
  readonly needs: string;
  /** Installs the generator, once for each version. */
  install(folder: string): Promise<void>;
  /** Generates and compiles in `work`, and returns the command that makes the calls. */
  build(folder: string, work: string): Promise<readonly string[]>;
}

const node = join(repository, "node_modules/.bin/node");

const openApiTypescript: Generator = {
  name: "openapi-typescript + openapi-fetch",
  version: "7.13.0 + 0.17.0",
  needs: "npm",
  async install(folder) {
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    const packages = [
      "openapi-typescript@7.13.0",
      "openapi-fetch@0.17.0",
      "typescript@5.9.3",
      "@types/node@24.10.1",
    ];
    await run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages], folder);
  },
  async build(folder, work) {
    const bin = (name: string) => join(folder, "node_modules/.bin", name);
    await writeFile(join(work, "package.json"), '{ "type": "module" }');
    await run(["ln", "-s", join(folder, "node_modules"), "node_modules"], work);
    await run([bin("openapi-typescript"), SPEC, "-o", "schema.d.ts"], work);
    await copy("call.ts", work);
    const options =
      "--strict --noEmit --module nodenext --target es2022 --allowImportingTsExtensions --types node";
    await run([bin("tsc"), ...options.split(" "), "call.ts"], work);
    return [node, "call.ts"];
  },
};

const openApiPythonClient: Generator = {
  name: "openapi-python-client",
  version: "0.29.1",
  needs: "python3",
  async install(folder) {
    await run(["python3", "-m", "venv", "venv"], folder);
    await run(
      ["venv/bin/pip", "install", "--quiet", "openapi-python-client==0.29.1", "ruff==0.17.6"],
      folder,
    );
  },
  async build(folder, work) {
    const python = join(folder, "venv/bin/python");
    const words = ["generate", "--path", SPEC, "--output-path", "foreign", "--meta", "none"];
    await run([join(folder, "venv/bin/openapi-python-client"), ...words], work, {
      PATH: `${join(folder, "venv/bin")}${delimiter}${process.env["PATH"]}`,
    });
    await run([python, "-m", "compileall", "-q", "foreign"], work);
    await copy("call.py", work);
    return [python, "call.py"];
  },
};

/** As the tests of the Go client build: the standard library is compiled once. */
const GO_BUILD = { CGO_ENABLED: "0", GOFLAGS: "-trimpath" };

const oapiCodegen: Generator = {
  name: "oapi-codegen (Go)",
  version: "2.8.2",
  needs: "go",
  async install(folder) {
    const tool = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2";
    await run(["go", "install", tool], folder, { ...GO_BUILD, GOBIN: folder });
  },
  async build(folder, work) {
    // Frames of streams are named by an extension alone, so that pruning would drop them.
    const settings = "package: main\ngenerate: { models: true, client: true }\noutput: client.gen.go\n";
    await writeFile(join(work, "settings.yaml"), `${settings}output-options: { skip-prune: true }\n`);
    await run([join(folder, "oapi-codegen"), "-config", "settings.yaml", SPEC], work);
    await copy("call.go", work);
    const modules = "require github.com/oapi-codegen/runtime v1.5.0\n";
    await writeFile(join(work, "go.mod"), `module agentd.test/foreign\n\ngo 1.24\n\n${modules}`);
    await run(["go", "mod", "tidy"], work);
    await run(["go", "build", "-o", "call", "."], work, GO_BUILD);
    return [join(work, "call")];
  },
};

const MAVEN = "https://repo1.maven.org/maven2";
/** What the generated client needs, as its pom.xml says. */
const JARS = [
  "com/google/code/findbugs/jsr305/3.0.2",
  "com/google/code/gson/gson/2.10.1",
  "com/squareup/okhttp3/logging-interceptor/4.12.0",
  "com/squareup/okhttp3/okhttp/4.12.0",
  "com/squareup/okio/okio-jvm/3.6.0",
  "io/gsonfire/gson-fire/1.9.0",
  "jakarta/annotation/jakarta.annotation-api/1.3.5",
  "jakarta/ws/rs/jakarta.ws.rs-api/2.1.6",
  "org/apache/commons/commons-lang3/3.18.0",
  "org/jetbrains/kotlin/kotlin-stdlib/1.8.21",
  "org/openapitools/jackson-databind-nullable/0.2.11",
];

/** Its programs end within seconds, before the optimizing compiler has paid for itself. */
const JAVA = { JAVA_TOOL_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1" };

const openApiGenerator: Generator = {
  name: "openapi-generator (Java)",
  version: "7.25.0",
  needs: "javac",
  async install(folder) {
    await mkdir(join(folder, "jars"));
    const cli = "org/openapitools/openapi-generator-cli/7.25.0";
    await Promise.all([
      download(cli, join(folder, "generator.jar")),
      ...JARS.map((path) => download(path, join(folder, "jars", `${path.split("/").at(-2)}.jar`))),
    ]);
  },
  async build(folder, work) {
    const words = ["generate", "-i", SPEC, "-g", "java", "--library", "okhttp-gson", "-o", "client"];
    const only = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false";
    await run(
      ["java", "-jar", join(folder, "generator.jar"), ...words, "--global-property", only],
      work,
      JAVA,
    );
    await copy("Call.java", work);
    const classPath = ["classes", join(folder, "jars/*")].join(delimiter);
    await run(["sh", "-c", "find client/src/main/java -name '*.java' > sources"], work);
    await run(["javac", "-nowarn", "-cp", classPath, "-d", "classes", "@sources", "Call.java"], work, JAVA);
    return ["java", "-cp", classPath, "Call"];
  },
};

const generators = [openApiTypescript, openApiPythonClient, oapiCodegen, openApiGenerator];

interface Row {
  readonly name: string;
  readonly version: string;
  readonly result: "passed" | "failed" | "left out";
  readonly seconds: string;
  /** Why it failed, or was left out. */
  readonly why: string;
}

const wanted = process.argv.slice(2);
const chosen = generators.filter(
  ({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)),
);
const server = await startServer();
try {
  const rows = await Promise.all(chosen.map((generator) => tryOut(generator)));
  console.table(rows.map(({ why: _why, ...row }) => row));
  for (const { name, result, why } of rows) if (why !== "") console.log(`${name}, ${result}: ${why}`);
  if (rows.some(({ result }) => result === "failed")) process.exitCode = 1;
} finally {
  await server.stop();
}

async function tryOut(generator: Generator): Promise<Row> {
  const { name, version, needs } = generator;
  const startedMs = performance.now();
  const row = (result: Row["result"], why = ""): Row => {
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    return { name, version, result, seconds, why };
  };
  const found = await run(["sh", "-c", `command -v ${needs}`], repository).catch(() => undefined);
  if (found === undefined) return row("left out", `${needs} is not installed`);
  const folder = await installed(generator).catch(reasonOf);
  // A registry that cannot be reached says nothing about the specification.
  if (typeof folder !== "string") return row("left out", `it could not be installed: ${folder.reason}`);
  const work = await mkdtemp(join(tmpdir(), "agentd-foreign-"));
  try {
    const command = await generator.build(folder, work);
    const lacking = await missingOperations(work);
    if (lacking.length > 0) return row("failed", `the client has no ${lacking.join(", ")}`);
    const output = await run(command, work, server.environment);
    return EXPECTED.test(output) ? row("passed") : row("failed", `unexpected output: ${output}`);
  } catch (error) {
    return row("failed", reasonOf(error).reason);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Returns the operations that no generated source names: some generators leave out what they cannot read. */
async function missingOperations(work: string): Promise<readonly string[]> {
  const { paths } = JSON.parse(await readFile(SPEC, "utf8")) as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId?: string }>>>>;
  };
  const entries = await readdir(work, { recursive: true });
  const sources = entries.filter((entry) => /\.(?:ts|py|go|java)$/.test(entry));
  const texts = await Promise.all(sources.map((source) => readFile(join(work, source), "utf8")));
  const plain = (text: string) => text.replaceAll("_", "").toLowerCase();
  // Some generators make a file for each operation, and name it only there.
  const generated = plain([...sources, ...texts].join("\n"));
  return Object.values(paths)
    .flatMap((path) => Object.values(path))
    .flatMap(({ operationId }) => operationId ?? [])
    .filter((id) => !generated.includes(plain(id)));
}

function reasonOf(error: unknown): { readonly reason: string } {
  return { reason: error instanceof Error ? error.message : String(error) };
}

/** Returns the folder of an installed generator. One that was not installed to the end is installed again. */
async function installed({ name, version, install }: Generator): Promise<string> {
  const folder = join(CACHE, `${name} ${version}`.replaceAll(/[^\w.]+/g, "-"));
  const mark = join(folder, ".installed");
  if (await exists(mark)) return folder;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await install(folder);
  await writeFile(mark, "");
  return folder;
}

async function download(path: string, target: string): Promise<void> {
  const [artifact, version] = path.split("/").slice(-2);
  const url = `${MAVEN}/${path}/${artifact}-${version}.jar`;
  const response = await fetch(url, { signal: AbortSignal.timeout(STEP_TIMEOUT_MS) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  await writeFile(target, new Uint8Array(await response.arrayBuffer()));
}

function copy(name: string, work: string): Promise<void> {
  return copyFile(join(repository, "test/foreign", name), join(work, name));
}

/** Returns what a command printed. Throws with its output when it fails. */
async function run(
  [program = "", ...args]: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: STEP_TIMEOUT_MS,
  });
  const ended = new Promise<number | null>((resolve, reject) =>
    child.on("error", reject).on("close", resolve),
  );
  const [status, out, err] = await Promise.all([ended, readText(child.stdout), readText(child.stderr)]);
  if (status === 0) return out;
  throw new Error(`${program} ${args[0] ?? ""} failed:\n${`${out}${err}`.trim().slice(-2000)}`);
}

interface Server {
  readonly environment: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** Starts the built program with the demo model in a home of its own. */
async function startServer(): Promise<Server> {
  const home = await mkdtemp(join(tmpdir(), "agentd-foreign-home-"));
  const child = spawn(node, [join(repository, "dist/agentd.mjs"), "gateway", "--port", "0"], {
    env: { ...process.env, AGENTD_HOME: home },
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stderr.resume();
  const ended = new Promise((resolve) => child.on("close", resolve));
  const stop = async () => {
    child.kill();
    await ended;
    await rm(home, { recursive: true, force: true });
  };
  let output = "";
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    output += String(chunk);
    const url = /listens on (http\S+)/.exec(output)?.[1];
    if (url === undefined) continue;
    const key = /^API_SERVER_KEY=(.*)$/m.exec(await readFile(join(home, ".env"), "utf8"))?.[1] ?? "";
    return { environment: { AGENTD_URL: url, API_SERVER_KEY: key, AGENTD_PROMPT: PROMPT }, stop };
  }
  await stop();
  throw new Error(`agentd did not start. Run "npm run build" first.\n${output}`);
}

import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { oncePerFile } from "../../harness/guard.ts";
import { KEY } from "../../harness/service.ts";
import { startExampleService } from "./examples.ts";
import { runProgram, runTable } from "./run-program.ts";
import { go, goCache, goSdk, missingGo } from "./toolchain.ts";

const skip = missingGo() ?? false;

/**
 * Nothing is downloaded: the module needs the standard library alone, and of that no part in C. Go finds what it has compiled
 * by the content of the sources, but only where no path of this run is in it. Nobody debugs these programs.
 */
const env = {
  CGO_ENABLED: "0",
  GOPROXY: "off",
  GOFLAGS: "-mod=mod -trimpath -ldflags=-w",
  GOTOOLCHAIN: "local",
  ...(skip === false ? { GOCACHE: goCache() } : {}),
};

async function runGo(words: readonly string[], cwd: string): Promise<string> {
  const { status, stdout, stderr } = await runProgram([go, ...words], { env, cwd });
  assert.equal(status, 0, `${stdout}${stderr}`);
  return stdout;
}

/** A copy of the module and of the program that uses it. What one test compiles the next one finds. */
const moduleCopy = oncePerFile(async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-go-"));
  await cp(goSdk, join(folder, "sdk"), { recursive: true });
  await cp(join(import.meta.dirname, "go"), join(folder, "run"), { recursive: true });
  const requirement =
    "require github.com/agentd/agentd-go v0.0.0\n\nreplace github.com/agentd/agentd-go => ../sdk\n";
  await writeFile(join(folder, "run/go.mod"), `module agentd.test/run\n\ngo 1.19\n\n${requirement}`);
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
});

test("sdk go: the module is formatted, passes vet and its own tests", { skip }, async (context) => {
  const { folder } = await moduleCopy();
  // In a new home each step begins with the standard library: in parts, so that a slow machine shows progress.
  for (const part of ["sdk", "run"]) {
    const cwd = join(folder, part);
    await context.test(`${part} is formatted`, async () => {
      assert.equal(await runGo(["fmt", "./..."], cwd), "", "these files are not formatted");
    });
    await context.test(`${part} compiles`, async () => {
      await runGo(["build", "-p", "1", "./..."], cwd);
    });
    await context.test(`${part} passes vet`, async () => {
      await runGo(["vet", "-p", "1", "./..."], cwd);
    });
  }
  // Vet has run: its second pass with other checks would analyse the standard library again. What passed before runs again.
  await context.test("sdk passes its own tests", async () => {
    await runGo(["test", "-vet=off", "-count=1", "-p", "1", "./..."], join(folder, "sdk"));
  });
});

test("sdk go: every scenario has its outcome", { skip }, async (context) => {
  const { folder } = await moduleCopy();
  const program = join(folder, "run/scenarios");
  await runGo(["build", "-o", program, "."], join(folder, "run"));
  await runTable(context, "go", (stage, names) => [program, stage, ...names]);
});

test("sdk go: the examples of the README do what they say", { skip }, async () => {
  await using service = await startExampleService();
  const folder = join((await moduleCopy()).folder, "sdk");
  const bin = join(folder, "bin");
  await mkdir(bin);
  await runGo(["build", "-o", bin, "./examples/..."], folder);
  const printed: Record<string, string> = {};
  for (const name of await readdir(bin)) {
    // oxlint-disable-next-line no-await-in-loop -- one run at a time
    const output = await runProgram([join(bin, name)], {
      env: { AGENTD_URL: service.url, API_SERVER_KEY: KEY },
    });
    assert.equal(output.status, 0, output.stderr);
    printed[name] = output.stdout;
  }
  assert.deepEqual(printed, {
    approval: "ok: it ran\n",
    chat: "the answer\n",
    errors: "404 run_not_found true true\n",
    gateway: "approved: rm -rf build\nok: it ran\n",
    stream: "the answer\n",
  });
});

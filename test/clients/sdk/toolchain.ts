/** Finds the programs that the SDKs of other languages need. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";

const sdks = join(import.meta.dirname, "../../../generated/sdk");
export const pythonSdk = join(sdks, "python");
export const goSdk = join(sdks, "go");

/** Where `.ci/run` installs what the Python package and its tests need. */
const prepared = join(homedir(), ".cache/agentd-python/bin/python");
export const python = process.env["AGENTD_PYTHON"] ?? (existsSync(prepared) ? prepared : "python3");

/** Why tests of the Python package cannot run; undefined when they can. */
export function missingPython(): string | undefined {
  const code = "import sys, httpx, mypy; print(*sys.version_info[:2])";
  const found = spawnSync(python, ["-c", code], { encoding: "utf8" });
  if (found.error) return `${python} is not installed`;
  if (found.status !== 0) return `${python} has no httpx or no mypy`;
  const [major = 0, minor = 0] = found.stdout.trim().split(" ").map(Number);
  return major === 3 && minor >= 10
    ? undefined
    : `it is Python ${major}.${minor}, and the package needs 3.10`;
}

export const go = process.env["AGENTD_GO"] ?? "go";

/** Why tests of the Go module cannot run; undefined when they can. */
export function missingGo(): string | undefined {
  const found = spawnSync(go, ["version"], { encoding: "utf8" });
  if (found.error || found.status !== 0) return "Go is not installed";
  const [, minor = "0"] = /go1\.(\d+)/.exec(found.stdout) ?? [];
  return Number(minor) >= 19 ? undefined : `it is Go 1.${minor}, and the module needs 1.19`;
}

/** Where Go keeps what it has compiled, also for the user's own builds: the standard library takes a minute. */
export function goCache(): string {
  return spawnSync(go, ["env", "GOCACHE"], { encoding: "utf8" }).stdout.trim();
}

/** The main script of the executable: unpacks the program and imports it. Bundled as CommonJS, which Node asks for here. */
import nodeModule from "node:module";
import { join, resolve } from "node:path";
import process from "node:process";
import { getAsset, getRawAsset } from "node:sea";
import { pathToFileURL } from "node:url";
import { unpackProgram, type PackedProgram } from "./unpack.ts";

/** `agentd --run-script FILE` runs a JavaScript or TypeScript file, as `node FILE` does: the machine may have no Node. */
const RUN_SCRIPT = "--run-script";

if (process.argv[2] === RUN_SCRIPT && process.argv[3] !== undefined) {
  process.argv.splice(1, 3, resolve(process.argv[3]));
  nodeModule.runMain();
} else {
  start();
}

function start(): void {
  try {
    const manifest = JSON.parse(getAsset("manifest", "utf8")) as Omit<PackedProgram, "read">;
    const folder = unpackProgram({
      ...manifest,
      read: (path) => new Uint8Array(getRawAsset(path) as ArrayBuffer),
    });
    void import(pathToFileURL(join(folder, "main.mjs")).href);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}

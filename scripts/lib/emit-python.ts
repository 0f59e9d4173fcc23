/** The Python package: what is printed from the OpenAPI document, and scripts/python/ as it is. */
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { BundledDocument } from "./document.ts";
import { writeText } from "./files.ts";
import { readOperations } from "./operation.ts";
import { printAsyncClient, printClient } from "./python-client.ts";
import { readMethods } from "./python-method.ts";
import { printIndex, printProject, printReadme, printVersion } from "./python-package.ts";
import { PYTHON_HEADER } from "./python-text.ts";
import { PythonTypes } from "./python-types.ts";
import { repository } from "./redocly.ts";

const PACKAGE = "agentd_client";

/** Writes the whole package into `folder`. The same document always gives the same bytes. */
export async function writePython(folder: string, document: BundledDocument): Promise<void> {
  const runtime = join(repository, "scripts/python");
  const copies = (await readdir(runtime))
    .filter((file) => file.endsWith(".py"))
    .map(async (file) => {
      const text = await readFile(join(runtime, file), "utf8");
      await writeText(join(folder, PACKAGE, file), `${PYTHON_HEADER}${text}`);
    });
  const printed = Object.entries(emitPython(document)).map(([file, text]) =>
    writeText(join(folder, file), text),
  );
  await Promise.all([...copies, ...printed]);
}

/** The printed files of the package, by path. */
export function emitPython(document: BundledDocument): Readonly<Record<string, string>> {
  const types = new PythonTypes(document);
  const methods = readMethods(document, readOperations(document), types);
  return {
    "pyproject.toml": printProject(document),
    "README.md": printReadme(),
    [`${PACKAGE}/__init__.py`]: printIndex(),
    [`${PACKAGE}/_version.py`]: printVersion(document),
    [`${PACKAGE}/py.typed`]: "",
    [`${PACKAGE}/types.py`]: types.print(),
    [`${PACKAGE}/client.py`]: printClient(methods),
    [`${PACKAGE}/aio.py`]: printAsyncClient(methods),
  };
}

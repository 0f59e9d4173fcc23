/** The folder that a client chooses for a session. Touches the machine. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import { isInside } from "../../base/text.ts";
import type { Identity } from "../edge/access.ts";

/**
 * Returns the folder without links. ServiceError `invalid_request` unless it is an existing folder, and
 * `insufficient_scope` for one outside `roots` without the scope admin.
 */
export async function chooseFolder(
  path: string,
  roots: readonly string[],
  { name, scopes }: Identity,
  param = "cwd",
): Promise<string> {
  const isPlain = isAbsolute(path) && !path.includes("\0");
  const real = isPlain ? await realpath(path).catch(() => undefined) : undefined;
  const isAdmin = scopes.includes("admin");
  // Whether a folder elsewhere exists is none of the caller's business.
  if (!isAdmin && !(await liesInside(real ?? path, roots))) {
    throw new ServiceError(
      "insufficient_scope",
      `The key ${JSON.stringify(name)} requires the scope "admin" to work in ${JSON.stringify(path)}: the folder is outside agent.workspace and agent.workspace_roots.`,
      { param },
    );
  }
  const found = real === undefined ? undefined : await stat(real).catch(() => undefined);
  if (real !== undefined && found?.isDirectory()) return real;
  throw new ServiceError("invalid_request", `${param} must be the absolute path of an existing folder.`, {
    param,
  });
}

async function liesInside(folder: string, roots: readonly string[]): Promise<boolean> {
  const reals = await Promise.all(roots.map((root) => realpath(root).catch(() => root)));
  return reals.some((root) => isInside(folder, root));
}

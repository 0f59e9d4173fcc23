/** The folder that a session works in: which it may be, and what it is. Touches the machine, and only looks at it. */
import { readFile, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { isInside } from "../../base/paths.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RpcContext } from "../deps.ts";
import { hasScope } from "../connection/scope.ts";

/** The git branch that a folder is on; undefined where there is none. */
export async function branchOf(cwd: string): Promise<string | undefined> {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const head = await readFile(join(folder, ".git", "HEAD"), "utf8").catch(() => undefined);
    if (head !== undefined) return /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1];
    if (dirname(folder) === folder) return undefined;
  }
}

/**
 * The folder that a host names for a session, without links. Undefined for none, for one that is not there, and for one
 * that a host of another machine names and that lies outside of the roots: it means its own machine's. ServiceError
 * `insufficient_scope` for one outside of the roots where the key lacks the scope admin.
 */
export async function chosenFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || (await liesInRoots(ctx, folder))) return folder;
  if (!ctx.peer.isLocal) return undefined;
  if (hasScope(ctx.peer.identity, "admin")) return folder;
  const { owner } = ctx.peer.identity;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(owner)} has no scope "admin", which it needs to work in ${JSON.stringify(path)}: the folder lies outside of agent.workspace and agent.workspace_roots. Add the folder to agent.workspace_roots, or the scope in api_server.keys.`,
    { param: "cwd" },
  );
}

/** As {@link chosenFolder}, for what is only looked at: undefined also for what the key may not work in. */
export async function shownFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || mayUseMachine(ctx) || (await liesInRoots(ctx, folder))) return folder;
  return undefined;
}

/** Whether the host may name any place of this machine: whoever it is that sits at it, and not merely a key that is used there. */
export function mayUseMachine({ peer }: RpcContext): boolean {
  return peer.isLocal && hasScope(peer.identity, "admin");
}

/** Where sessions may work whoever asks for it; absolute. */
export function rootsOf({ deps }: RpcContext): readonly string[] {
  const { workspace, workspaceRoots } = deps.agent.deps.settings;
  return [workspace, ...workspaceRoots];
}

async function realFolder(path: string): Promise<string | undefined> {
  if (!isAbsolute(path) || path.includes("\0")) return undefined;
  const real = await realpath(path).catch(() => undefined);
  const found = real === undefined ? undefined : await stat(real).catch(() => undefined);
  return found?.isDirectory() === true ? real : undefined;
}

/** `folder` is without links. A root that is not there has nothing in it. */
async function liesInRoots(ctx: RpcContext, folder: string): Promise<boolean> {
  const roots = await Promise.all(rootsOf(ctx).map((root) => realpath(root).catch(() => root)));
  return roots.some((root) => isInside(folder, root));
}

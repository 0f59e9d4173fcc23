/** References to secrets in the environment. Pure. */
import { ServiceError } from "../../base/errors.ts";
import type { Environment } from "../home.ts";

/**
 * Returns the variable that `env:NAME` refers to; other values unchanged. ServiceError `invalid_config` when the
 * variable is not set; `path` is the key that holds the reference.
 */
export function resolveSecret(value: string, env: Environment, path: string): string {
  if (!value.startsWith("env:")) return value;
  const name = value.slice("env:".length);
  const found = env[name];
  if (found) return found;
  throw new ServiceError(
    "invalid_config",
    `${path} refers to the variable ${name}, which is not set. Set it in the environment or in .env.`,
    { param: path },
  );
}

/** The environment as it stands now: that of the process, with the home's `.env` file below it. */
import { registerSecret } from "../base/redact.ts";
import { readEnvFile, setEnvVariable } from "./env-file.ts";
import { envPath, type Environment } from "./home.ts";

/** Variables by name; those of the file can be set and read anew while the process runs. */
export class Variables {
  readonly #env: Environment;
  readonly #path: string;
  #file: Environment;

  private constructor(env: Environment, path: string, file: Environment) {
    this.#env = env;
    this.#path = path;
    this.#file = file;
  }

  /** `env` is the environment of the process; it wins over the file. */
  static async open(options: { readonly env: Environment; readonly home: string }): Promise<Variables> {
    const path = envPath(options.home);
    const file = await readEnvFile(path);
    hide(file);
    return new Variables(options.env, path, file);
  }

  /** Undefined when it is not set or empty. */
  get(name: string): string | undefined {
    return this.#env[name] || this.#file[name] || undefined;
  }

  /** Stores a variable in the file. ServiceError `invalid_config` for what such a file cannot hold. */
  async set(name: string, value: string): Promise<void> {
    registerSecret(value);
    await setEnvVariable(this.#path, name, value);
    this.#file = { ...this.#file, [name]: value };
  }

  /** Reads the file again. Resolves to the number of variables that are new, changed or gone. */
  async reload(): Promise<number> {
    const before = this.#file;
    const after = await readEnvFile(this.#path);
    hide(after);
    this.#file = after;
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].filter((name) => before[name] !== after[name]).length;
  }
}

/** The file is for secrets, so all of it is hidden but what can be none. */
function hide(file: Environment): void {
  for (const value of Object.values(file))
    if (value !== undefined && !PLAIN.test(value)) registerSecret(value);
}

/** Switches, numbers, paths, and addresses without a password or a query, which may hold keys. */
const PLAIN = /^(?:true|false|on|off|[\d.]*|~?\/[\w./-]*|[a-z]+:\/\/[^@?]*)$/i;

/** The current environment: that of the process over the home's `.env` file. */
import { registerSecret } from "../base/observe.ts";
import {
  readEnvFile,
  removeEnvVariable,
  setEnvVariable,
  watchEnvFile,
  type EnvFile,
  envPath,
  type Environment,
} from "./home.ts";
import { isSecretName, secretsIn } from "./secret-values.ts";

interface VariablesOptions {
  /** The environment of the process; it overrides the file. */
  readonly env: Environment;
  readonly home: string;
  /** Variables that hold secrets whatever they are called: the configuration refers to them. */
  readonly secretNames?: ReadonlySet<string>;
}

/**
 * Variables by name. Those of the file can be set and reloaded while the process runs. Secrets in the file are hidden
 * as soon as they are written, by any process; their values are used after {@link reload}.
 */
export class Variables {
  readonly #env: Environment;
  readonly #path: string;
  readonly #secretNames: ReadonlySet<string>;
  #file: Environment = {};
  readonly #unwatch: () => void;

  private constructor({ env, home, secretNames = new Set() }: VariablesOptions) {
    this.#env = env;
    this.#path = envPath(home);
    this.#secretNames = secretNames;
    this.#unwatch = watchEnvFile(this.#path, (file) => this.#hide(file));
  }

  static async open(options: VariablesOptions): Promise<Variables> {
    const variables = new Variables(options);
    await variables.reload().catch((error: unknown) => {
      variables.close();
      throw error;
    });
    return variables;
  }

  /** Returns a variable; undefined when it is unset or empty. */
  get(name: string): string | undefined {
    return this.#env[name] || this.#file[name] || undefined;
  }

  /** Stores a secret in the file. ServiceError `invalid_config` for a value that the file cannot hold. */
  async set(name: string, value: string): Promise<void> {
    for (const secret of secretsIn(name, value, { isSecret: true })) registerSecret(secret);
    // After a restart, neither the name nor the value may show that it is a secret.
    await setEnvVariable(this.#path, name, value, { isMarked: !isSecretName(name) });
    this.#file = { ...this.#file, [name]: value };
  }

  /** Removes a variable from the file. Resolves to whether the file had it. ServiceError `invalid_config`. */
  async remove(name: string): Promise<boolean> {
    const isRemoved = await removeEnvVariable(this.#path, name);
    const { [name]: _, ...others } = this.#file;
    this.#file = others;
    return isRemoved;
  }

  /** Returns where a variable comes from: the environment of the process overrides the file. */
  sourceOf(name: string, file: Environment = this.#file): "process" | "file" | undefined {
    if (this.#env[name]) return "process";
    return file[name] ? "file" : undefined;
  }

  /** Reads the variables of the file as it is now, without using them. */
  async stored(): Promise<Environment> {
    const file = await readEnvFile(this.#path);
    this.#hide(file);
    return file.variables;
  }

  /** Reloads the file. Resolves to the number of added, changed and removed variables. */
  async reload(): Promise<number> {
    const before = this.#file;
    const file = await readEnvFile(this.#path);
    this.#hide(file);
    const after = file.variables;
    this.#file = after;
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].filter((name) => before[name] !== after[name]).length;
  }

  /** Stops watching the file; its secrets stay hidden. */
  close(): void {
    this.#unwatch();
  }

  #hide({ variables, secretNames }: EnvFile): void {
    for (const [name, value] of Object.entries(variables)) {
      const isSecret = secretNames.has(name) || this.#secretNames.has(name);
      for (const secret of secretsIn(name, value ?? "", { isSecret })) registerSecret(secret);
    }
  }
}

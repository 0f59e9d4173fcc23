/** The environment as it stands now: that of the process, with the home's `.env` file below it. */
import { beforeRedacting, registerSecret } from "../base/observe/redact.ts";
import { envFileStamp, readEnvFile, readEnvFileNow, setEnvVariable, type EnvFile } from "./file/env-file.ts";
import { envPath, type Environment } from "./home.ts";
import { isTellingName, secretsIn } from "./secrets/variable.ts";

export interface VariablesOptions {
  /** The environment of the process; it wins over the file. */
  readonly env: Environment;
  readonly home: string;
  /** Variables that hold secrets whatever they are called: the configuration refers to them. */
  readonly secretNames?: ReadonlySet<string>;
}

/**
 * Variables by name; those of the file can be set and read anew while the process runs. Secrets in the file are hidden
 * as soon as they stand there, whoever wrote them; what they are used for needs {@link reload}.
 */
export class Variables {
  readonly #env: Environment;
  readonly #path: string;
  readonly #secretNames: ReadonlySet<string>;
  #file: Environment = {};
  #stamp = "";
  readonly #unwatch: () => void;

  private constructor({ env, home, secretNames = new Set() }: VariablesOptions) {
    this.#env = env;
    this.#path = envPath(home);
    this.#secretNames = secretNames;
    this.#unwatch = beforeRedacting(() => this.#hideNew());
  }

  static async open(options: VariablesOptions): Promise<Variables> {
    const variables = new Variables(options);
    await variables.reload().catch((error: unknown) => {
      variables.close();
      throw error;
    });
    return variables;
  }

  /** Undefined when it is not set or empty. */
  get(name: string): string | undefined {
    return this.#env[name] || this.#file[name] || undefined;
  }

  /** Stores a secret in the file. ServiceError `invalid_config` for what such a file cannot hold. */
  async set(name: string, value: string): Promise<void> {
    for (const secret of secretsIn(name, value, { isSecret: true })) registerSecret(secret);
    // Neither the name nor the value may say after the next start that it is a secret.
    await setEnvVariable(this.#path, name, value, { isMarked: !isTellingName(name) });
    this.#file = { ...this.#file, [name]: value };
  }

  /** Reads the file again. Resolves to the number of variables that are new, changed or gone. */
  async reload(): Promise<number> {
    const before = this.#file;
    const file = await readEnvFile(this.#path);
    this.#hide(file);
    const after = file.variables;
    this.#file = after;
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].filter((name) => before[name] !== after[name]).length;
  }

  /** The file is not looked at any more; its secrets stay hidden. */
  close(): void {
    this.#unwatch();
  }

  #hideNew(): void {
    const stamp = envFileStamp(this.#path);
    if (stamp === this.#stamp) return;
    this.#stamp = stamp;
    this.#hide(readEnvFileNow(this.#path));
  }

  #hide({ variables, secretNames }: EnvFile): void {
    for (const [name, value] of Object.entries(variables)) {
      const isSecret = secretNames.has(name) || this.#secretNames.has(name);
      for (const secret of secretsIn(name, value ?? "", { isSecret })) registerSecret(secret);
    }
  }
}

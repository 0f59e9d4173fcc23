/** The operations of the HTTP API for commands, over the database of a home: nothing listens, and no work starts. */
import { stat } from "node:fs/promises";
import packageFile from "../../package.json" with { type: "json" };
import { createEngine } from "../agent/engines/scripted.ts";
import { ServiceError } from "../base/errors.ts";
import { createLog } from "../base/observe.ts";
import { systemClock } from "../base/time.ts";
import { makePrivateFolder, prepareHome, type Environment } from "../config/home.ts";
import { createKeyRing } from "../config/keys.ts";
import { Variables } from "../config/variables.ts";
import { createTargets, type Targets } from "../deliver/target.ts";
import type { HttpApi } from "../http/app.ts";
import type { KeyHolder, KeyRing } from "../http/edge/access.ts";
import type { Store } from "../store/store.ts";
import { openHomeStore, readHome, type Home } from "./home.ts";
import { checkToolInput, openModels, type Models } from "./models.ts";
import { wireAgent } from "./wire-agent.ts";
import { createServiceTargets } from "./wire-delivery.ts";
import { ServiceApi } from "./wire-http.ts";

/** The user of the machine, who reaches the data of all owners. */
const CALLER: KeyHolder = { name: "cli", owner: "default", scopes: ["admin"] };

type OperationCall = Parameters<HttpApi["perform"]>[0];

/** What only some requests need, since it takes time. */
interface Needs {
  /** Looks for the model servers of this machine where no provider is configured. */
  readonly localModels: boolean;
  /** Loads the configured platforms. */
  readonly targets: boolean;
}

interface Opened extends Needs {
  readonly api: ServiceApi;
  close(): Promise<void>;
}

/** Answers requests like the HTTP API of the home's gateway, whether that runs or not. */
export class CommandApi {
  readonly #home: Home;
  #store: Store | undefined;
  /** The database exists, so what is stored stays. */
  #isKept = false;
  #opened: Opened | undefined;

  private constructor(home: Home) {
    this.#home = home;
  }

  /** Reads the configuration of a home, and creates nothing. ServiceError `invalid_config`. */
  static async open(options: { readonly env: Environment; readonly home: string }): Promise<CommandApi> {
    return new CommandApi(await readHome({ ...options, log: createLog("error") }));
  }

  get home(): Home {
    return this.#home;
  }

  /** Returns whether the home has a database. Always true for a server. */
  hasDatabase(): Promise<boolean> {
    return databaseExists(this.#home.paths.databaseUrl);
  }

  /**
   * Performs an operation, like {@link CommandApi.fetch} answers a request. Rejects with the ServiceError of the operation.
   */
  async perform(call: OperationCall): ReturnType<HttpApi["perform"]> {
    const { operation, body } = call;
    await this.#openStore(!isRead(operation));
    const needs = {
      localModels: /Model|Provider|Price/.test(operation) || namesModel(JSON.stringify(body ?? null)),
      targets: /Route|Deliver|^testPlatform/.test(operation),
    };
    return (await this.#openApi(needs)).perform(call, CALLER);
  }

  /**
   * Answers a request. Without a database, a request that reads is answered as by an empty one, and one that changes
   * something creates it. ServiceError `state_store_unavailable`.
   */
  async fetch(request: Request): Promise<Response> {
    await this.#openStore(request.method !== "GET");
    const { pathname: path } = new URL(request.url);
    const needs = {
      localModels:
        /^\/v1\/(models|providers|prices)\b/.test(path) || namesModel(await request.clone().text()),
      targets: /^\/v1\/(webhooks|platforms)\b/.test(path),
    };
    return (await this.#openApi(needs)).fetch(request, CALLER);
  }

  async close(): Promise<void> {
    await this.#opened?.close();
    await this.#store?.close();
  }

  async #openStore(changes: boolean): Promise<void> {
    const home = this.#home;
    if (this.#store && (this.#isKept || !changes)) return;
    await this.close();
    this.#opened = undefined;
    this.#isKept = changes || (await this.hasDatabase());
    if (changes) {
      await prepareHome(home.folder);
      await makePrivateFolder(home.paths.workspace, "agent.workspace");
    }
    const paths = this.#isKept ? home.paths : { ...home.paths, databaseUrl: ":memory:" };
    this.#store = await openHomeStore({ ...home, paths });
  }

  async #openApi(needs: Needs): Promise<ServiceApi> {
    const opened = this.#opened;
    const isEnough =
      opened && (opened.localModels || !needs.localModels) && (opened.targets || !needs.targets);
    if (isEnough) return opened.api;
    await opened?.close();
    this.#opened = await wireApi(this.#home, this.#store as Store, needs);
    return this.#opened.api;
  }
}

async function databaseExists(url: string): Promise<boolean> {
  if (/^postgres(ql)?:\/\//.test(url)) return true;
  return stat(url).then(
    ({ size }) => size > 0,
    () => false,
  );
}

/** Returns whether an operation stores nothing, by its name. */
function isRead(operation: string): boolean {
  return /^(get|list|export|stream|test)[A-Z]/.test(operation);
}

const namesModel = (body: string): boolean => body.includes('"model":');

async function wireApi(home: Home, store: Store, needs: Needs): Promise<Opened> {
  const { config, env, folder, log, paths, processEnv, secretNames, problems, readConfig } = home;
  const clock = systemClock;
  const models = await modelsOf(home, needs);
  const { catalog, providers } = models;
  const { max_answer_bytes: maxAnswerBytes } = config.limits;
  const variables = await Variables.open({ env: processEnv, home: folder, secretNames });
  const options = {
    config,
    paths,
    models: catalog,
    engine: createEngine({
      providers,
      checkInput: checkToolInput,
      clock,
      log,
      maxAnswerBytes,
      models: catalog,
    }),
    env,
    processEnv,
    readConfig,
    variables,
    version: packageFile.version,
    configProblems: problems,
    log,
    connectsMcp: false,
  };
  const wiredAgent = wireAgent(options, store, clock);
  const targets: Targets = needs.targets
    ? await createServiceTargets(options, { store, clock })
    : createTargets([]);
  const api = new ServiceApi(
    { ...options, keys: keysOf(home) },
    {
      wiredAgent,
      targets,
      sandbox: { status: { active: false, reason: "no command runs here" } },
      telemetry: { http: {} },
      // The gateway sends what is due.
      dispatcher: { wake: () => {} },
      receiver: undefined,
    },
  );
  const close = async () => {
    await wiredAgent.close();
    variables.close();
    models.close();
  };
  return { ...needs, api, close };
}

/** Commands about jobs and messages work even if the default model cannot answer. */
async function modelsOf({ config, env, log }: Home, { localModels }: Needs): Promise<Models> {
  const model = localModels ? config.model : { ...config.model, detect_local: false };
  try {
    return await openModels({ ...config, model }, env, log);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const { default: _, ...others } = model;
    return openModels({ ...config, model: others }, env, log, { needsKey: false });
  }
}

/** The keys of the configuration. The caller needs none, so commands work even if they cannot be read. */
function keysOf({ config, env }: Home): KeyRing {
  const { key, keys } = config.api_server;
  const none: KeyRing = { required: true, find: () => undefined };
  if (key === undefined && keys.length === 0) return none;
  try {
    return createKeyRing(config, { env });
  } catch (error) {
    if (error instanceof ServiceError) return none;
    throw error;
  }
}

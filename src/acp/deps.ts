import type { Agent } from "../agent/agent.ts";
import type { Commands } from "../agent/commands/command.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Store } from "../store/store.ts";
import type { AcpSettings } from "./settings/settings.ts";

/** What the editor's side is built from. */
export interface AcpDeps {
  readonly store: Store;
  readonly agent: Agent;
  readonly commands: Commands;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: AcpSettings;
  /** Whose sessions the client sees. */
  readonly owner: string;
  /** Whether the configuration still says what the agent was loaded with. */
  isCurrent(): Promise<boolean>;
  /** Cuts what runs, ends what tools hold, and closes the store. */
  close(): Promise<void>;
}

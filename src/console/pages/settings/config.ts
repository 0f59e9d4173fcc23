/** The configuration with the version that a change of it names. */
import { useEffect, useState } from "preact/hooks";
import type { ConfigChange, ConfigView } from "../../../client/http.ts";
import { send } from "../../../client/request.ts";
import { followChanges } from "../../state/feed.ts";
import { messageOf, signedFetch } from "../../state/session.ts";
import type { Json } from "./schema.ts";

export interface Configuration {
  readonly view: ConfigView;
  /** The ETag of the file. */
  readonly version: string;
}

export interface ConfigurationState {
  readonly config: Configuration | undefined;
  readonly problem: string;
  /** True: the file is another one than the one that is shown. */
  readonly isOutdated: boolean;
  readonly reload: () => Promise<void>;
}

const server = { baseUrl: location.origin, fetch: signedFetch };
const PATH = "/v1/config";

/**
 * Reads the configuration and follows its changes. While `isHeld`, the shown one stays as it is: what the user edits is
 * compared with it.
 */
export function useConfiguration(isHeld: boolean): ConfigurationState {
  const [state, setState] = useState<Omit<ConfigurationState, "reload">>({
    config: undefined,
    problem: "",
    isOutdated: false,
  });
  const reload = async () => {
    try {
      const config = await readConfiguration();
      setState({ config, problem: "", isOutdated: false });
    } catch (error) {
      setState((before) => ({ ...before, problem: messageOf(error) }));
    }
  };
  useEffect(() => void reload(), []);
  useEffect(() => {
    const changed = () => {
      if (isHeld) setState((before) => ({ ...before, isOutdated: true }));
      else void reload();
    };
    return followChanges({ onChange: ({ topic }) => topic === "config" && changed(), onGap: changed });
  }, [isHeld]);
  return { ...state, reload };
}

export async function readConfiguration(): Promise<Configuration> {
  const response = await send(server, PATH, {});
  return { view: (await response.json()) as ConfigView, version: response.headers.get("etag") ?? "" };
}

/** Changes these keys of this version of the file. AgentApiError 412 when the file is another one by now. */
export async function changeConfiguration(
  patch: { readonly [name: string]: Json },
  version: string,
): Promise<ConfigChange> {
  const response = await send(server, PATH, {
    method: "PATCH",
    headers: { "content-type": "application/json", "if-match": version },
    body: JSON.stringify(patch),
  });
  return (await response.json()) as ConfigChange;
}

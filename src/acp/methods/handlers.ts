/** Every handler but that of `initialize`, by the names of the claims: one that is missing does not compile. */
import type {
  AcpExtension,
  AcpExtensionHandler,
  AcpGroup,
  AcpMethod,
  AcpNotification,
  AcpNotificationGroup,
} from "../wire/contract.ts";
import { authMethods } from "./auth.ts";
import { configMethods, setModel } from "./config.ts";
import { historyMethods } from "./history.ts";
import { promptMethods, promptNotifications } from "./prompt.ts";
import { sessionMethods } from "./session.ts";
import { steering } from "./steering.ts";

export const requests: AcpGroup<Exclude<AcpMethod, "initialize">> = {
  ...authMethods,
  ...sessionMethods,
  ...historyMethods,
  ...configMethods,
  ...promptMethods,
};

export const notifications: AcpNotificationGroup<AcpNotification> = promptNotifications;

export const extensions: Readonly<Record<AcpExtension, AcpExtensionHandler<unknown, unknown>>> = {
  "session/set_model": setModel,
  "_session/steering": steering,
};

/** The component that the OpenRPC generator runs for the host's document. */
import { component } from "./openrpc-component.ts";

export default component("host");

import { closedObject, nonEmptyText, defineTool, type Tool } from "../tool/tool.ts";

/** The name of the tool, which only sessions in plan mode have. */
export const PRESENT_PLAN = "present_plan";

const MAX_PLAN_CHARACTERS = 20_000;

/** The modes in which the user may have the plan carried out, by the answer. The first answers are the approvals. */
const APPROVALS: ReadonlyMap<string, "ask" | "accept_edits"> = new Map([
  ["Yes, and accept edits", "accept_edits"],
  ["Yes, and ask before edits", "ask"],
]);
const KEEP_PLANNING = "No, keep planning";

/** Returns the tool with which the agent asks for the approval of its plan. An approval changes the session's mode. */
export function createPresentPlan(): Tool {
  return defineTool<{ readonly plan: string }>({
    name: PRESENT_PLAN,
    toolset: "planning",
    kind: "switch_mode",
    description:
      "Presents your plan to the user and asks whether to carry it out. Call it when the plan is complete, with steps that " +
      "can be checked. If the user approves, the session leaves plan mode: carry the plan out at once.",
    parameters: closedObject({ plan: nonEmptyText(MAX_PLAN_CHARACTERS) }, ["plan"]),
    inspect: () => ({ kind: "tool", effect: "none", title: "Carry out this plan?" }),
    run: async ({ plan }, context) => {
      const choices = [...APPROVALS.keys(), KEEP_PLANNING];
      const question = { id: "plan", question: plan, choices, multi_select: false };
      const { plan: answer = "" } = await context.questions.clarify([question]);
      const mode = APPROVALS.get(answer);
      if (mode === undefined) return notApproved(answer);
      await context.chooseMode(mode);
      return `The user approved the plan. The session is now in mode ${mode}: carry the plan out.`;
    },
  });
}

function notApproved(answer: string): string {
  const isAnswer = answer !== "" && answer !== KEEP_PLANNING;
  return `The user did not approve the plan. Stay in plan mode.${isAnswer ? ` The user said: ${answer}` : ""}`;
}

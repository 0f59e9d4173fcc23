import type { ClarifyQuestion } from "../../../generated/http/client/types.gen.ts";
import { closedObject, flag, nonEmptyText, defineTool, type Tool } from "../tool/tool.ts";

interface ClarifyInput {
  readonly questions: readonly {
    readonly question: string;
    readonly choices?: readonly string[];
    readonly multi_select?: boolean;
  }[];
}

const MAX_QUESTIONS = 8;
const MAX_CHOICES = 12;

/** The tool that asks people questions. */
export function createClarify(): Tool {
  return defineTool<ClarifyInput>({
    name: "clarify",
    toolset: "clarify",
    kind: "think",
    description:
      "Asks the user questions and waits for the answers: only for what you cannot find out and cannot decide. Put all " +
      "open questions into one call. With choices the user picks one (several with multi_select), and may always answer " +
      "in free text.",
    parameters: closedObject(
      {
        questions: {
          type: "array",
          minItems: 1,
          maxItems: MAX_QUESTIONS,
          items: closedObject(
            {
              question: nonEmptyText(2_000),
              choices: {
                type: "array",
                minItems: 2,
                maxItems: MAX_CHOICES,
                items: nonEmptyText(300),
              },
              multi_select: flag("Several choices may be picked. Default false."),
            },
            ["question"],
          ),
        },
      },
      ["questions"],
    ),
    inspect: ({ questions }) => ({
      kind: "tool",
      effect: "none",
      title: `Ask: ${questions[0]?.question.slice(0, 120) ?? ""}`,
    }),
    run: async ({ questions }, context) => {
      const items = questions.map(({ question, choices, multi_select = false }, index): ClarifyQuestion => ({
        id: `q${index + 1}`,
        question,
        choices: choices ? [...choices] : null,
        multi_select,
      }));
      const answers = await context.questions.clarify(items);
      return items
        .map(({ id, question }) => `Q: ${question}\nA: ${answers[id] || "(skipped: decide yourself)"}`)
        .join("\n\n");
    },
  });
}

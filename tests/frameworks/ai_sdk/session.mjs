// Sessions of the AI SDK, with the options and the output of tests/frameworks/session.py.
import { createMCPClient } from "@ai-sdk/mcp";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount } from "ai";

const { api, headers, sessions } = JSON.parse(process.argv[2]);
const model = createOpenAI({ baseURL: `${api}/v1`, apiKey: "none" })("gpt-5");
const ends = {};
for (const [url, scripts] of sessions) {
  const client = await createMCPClient({ transport: { type: "http", url, headers } });
  const tools = await client.tools();
  for (const script of scripts) {
    try {
      const prompt = `Follow the script ${script}.`;
      ends[script] = (await generateText({ model, tools, prompt, stopWhen: isStepCount(30) })).text;
    } catch (error) {
      ends[script] = String(error);
    }
  }
  await client.close();
}
process.stdout.write(JSON.stringify(ends));

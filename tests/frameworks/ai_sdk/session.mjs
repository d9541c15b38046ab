// Sessions of the AI SDK, with the input and the output of tests/frameworks/session.py.
import { createInterface } from "node:readline";

import { createMCPClient } from "@ai-sdk/mcp";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount } from "ai";

for await (const line of createInterface({ input: process.stdin })) {
  const { api, headers, sessions } = JSON.parse(line);
  const model = createOpenAI({ baseURL: `${api}/v1`, apiKey: "none" })("gpt-5");
  const ends = {};
  for (const [url, scripts] of sessions) {
    for (const script of scripts) ends[script] = "not held";
    try {
      const client = await createMCPClient({ transport: { type: "http", url, headers } });
      const tools = await client.tools();
      for (const script of scripts) {
        const prompt = `Follow the script ${script}.`;
        const ask = generateText({ model, tools, prompt, stopWhen: isStepCount(30) });
        ends[script] = await ask.then(({ text }) => text, String);
      }
      await client.close();
    } catch (error) {
      for (const script of scripts) ends[script] = String(error);
    }
  }
  process.stdout.write(`\nEnds: ${JSON.stringify(ends)}\n`);
}

// The MCP Inspector's command line, many requests in one process: starting takes it longer than what it is asked.
//
// Each line of standard input holds the arguments of one command line, as JSON, and is answered by a line of standard
// output: {"returncode", "stdout", "stderr"}. Each is the Inspector's own run, from its arguments to its exit code; what
// it writes is taken down. The launcher does the same with `--cli` before the arguments.
import { createInterface } from "node:readline";
import { handleError, runCli } from "./node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js";

const answer = process.stdout.write.bind(process.stdout);
const written = { stdout: "", stderr: "" };
for (const name of Object.keys(written)) {
  process[name].write = (text, ...rest) => {
    written[name] += text;
    rest.at(-1)?.();
    return true;
  };
}
class Exit extends Error {}
process.exit = (code) => {
  throw Object.assign(new Exit(), { code });
};

for await (const line of createInterface({ input: process.stdin })) {
  Object.assign(written, { stdout: "", stderr: "" });
  const argv = [process.execPath, "mcp-inspector", ...JSON.parse(line)];
  const returncode = await runCli(argv).then(() => 0, (error) => handleError(error).catch((exit) => exit.code));
  answer(JSON.stringify({ returncode, ...written }) + "\n");
}

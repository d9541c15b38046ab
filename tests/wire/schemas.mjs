// Prints the official JSON schemas by revision. The conformance suite contains them in its bundled file.
//
//     node schemas.mjs PATH/conformance/dist/index.js
import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const TABLE = /\{"2025-03-26":([\w$]+),"2025-06-18":([\w$]+),"2025-11-25":([\w$]+),\[[\w$]+\]:([\w$]+)\}/;

const bundle = readFileSync(process.argv[2], "utf8");

/** Returns the end of the object literal that begins at `start`. Braces inside strings do not count. */
function endOf(start) {
  let depth = 0;
  let quote = "";
  for (let at = start; at < bundle.length; at++) {
    const char = bundle[at];
    if (char === "\\") at++;
    else if (quote) quote = char === quote ? "" : quote;
    else if ("`\"'".includes(char)) quote = char;
    else if (char === "{") depth++;
    else if (char === "}" && --depth === 0) return at + 1;
  }
  throw new Error("an object literal has no end");
}

function schema(variable) {
  const declared = bundle.indexOf(`,${variable}={$schema:`);
  if (declared < 0) throw new Error(`no schema in ${variable}`);
  const start = declared + variable.length + 2;
  return runInNewContext(`(${bundle.slice(start, endOf(start))})`);
}

const variables = TABLE.exec(bundle);
if (variables === null) throw new Error("the bundle has no table of schemas");
const schemas = REVISIONS.map((revision, place) => [revision, schema(variables[place + 1])]);
process.stdout.write(JSON.stringify(Object.fromEntries(schemas)));

// Builds dist/: the module for bundles, its types, the page, and the runtime's WebAssembly.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const root = import.meta.dirname;
const dist = join(root, "dist");
const modules = join(root, "node_modules");
const shared = {
  bundle: true,
  format: "esm",
  platform: "browser",
  target: "es2022",
  minify: true,
  legalComments: "none", // they lie in THIRD_PARTY.txt
  logLevel: "warning",
};

rmSync(dist, { recursive: true, force: true });
mkdirSync(join(dist, "page"), { recursive: true });
await build({
  ...shared,
  entryPoints: [join(root, "src/index.ts")],
  outfile: join(dist, "omniembed-edge.mjs"),
  external: ["node:*", "module", "worker_threads"],
});
await build({
  ...shared,
  entryPoints: [join(root, "page/app.ts")],
  outfile: join(dist, "page/app.mjs"),
  external: ["./omniembed-edge.mjs"],
});
for (const name of ["index.html", "style.css"]) {
  cpSync(join(root, "page", name), join(dist, "page", name));
}

const tsc = join(modules, "typescript/bin/tsc");
execFileSync(process.execPath, [tsc, "-p", "tsconfig.types.json"], { cwd: root, stdio: "inherit" });
// Declarations name their neighbours as JavaScript files would.
for (const name of readdirSync(join(dist, "types"))) {
  const file = join(dist, "types", name);
  writeFileSync(file, readFileSync(file, "utf8").replaceAll(/(from "\.\/\w+)\.ts"/g, '$1.js"'));
}

const wasm = "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm";
const packed = gzipSync(readFileSync(join(modules, wasm)), { level: 9 });
writeFileSync(join(dist, "ort-wasm-simd-threaded.wasm.gz"), packed);

const MIT = `Copyright (c) Microsoft Corporation

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT
OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`;
const notices = ["onnxruntime-web", "@huggingface/tokenizers"].map((name) => {
  const folder = join(modules, name);
  const content = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const { version, license, repository } = content;
  const file = join(folder, "LICENSE"); // onnxruntime-web comes without
  const text = existsSync(file) ? readFileSync(file, "utf8") : license === "MIT" ? MIT : "";
  if (!text) throw new Error(`${name} has no licence file; add its text here`);
  return `${name} ${version}: ${license}, ${repository.url}\n\n${text}`;
});
writeFileSync(join(dist, "THIRD_PARTY.txt"), notices.join(`\n${"-".repeat(72)}\n\n`));

// Builds dist/: the module for bundles, its types, the page, and the runtime's WebAssembly.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
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
  legalComments: "none", // whole licences lie in LICENSES.txt
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

const notices = ["onnxruntime-web", "@huggingface/tokenizers"].map((name) => {
  const { version, license, repository } = JSON.parse(
    readFileSync(join(modules, name, "package.json"), "utf8"),
  );
  return `${name} ${version}: ${license}, ${repository.url}\n`;
});
writeFileSync(join(dist, "THIRD_PARTY.txt"), notices.join(""));

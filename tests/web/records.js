// Makes records in the format of record.py from rows of weights.
import { deflateSync } from "node:zlib";
import { decodeMaps } from "../../src/limelight/view/web/decode.js";

const STEPS = 255;

// layers: for each map [head][row][column]
export function pack(layers) {
  const parts = [];
  for (const layer of layers) {
    const rows = layer.flat();
    const steps = Buffer.alloc(4 * rows.length);
    rows.forEach((row, i) => steps.writeFloatLE(Math.max(...row) / STEPS, 4 * i));
    const counts = rows.map((row) => quantise(row, Math.fround(Math.max(...row) / STEPS)));
    parts.push(steps, Buffer.from(counts.flat()));
  }
  return deflateSync(Buffer.concat(parts)).toString("base64");
}

function quantise(row, step) {
  let sum = 0;
  let last = 0;
  return row.map((weight) => {
    sum += step > 0 ? weight / step : 0;
    const count = Math.round(sum) - last;
    last += count;
    return count;
  });
}

// maps: [queries, keys, heads, part]
export function makeRecord(sides, maps, layers, more = {}) {
  const all = maps.map(([queries, keys, heads, part = "encoder"], layer) => ({
    name: `blocks.${layer}`,
    part,
    layer,
    heads,
    queries,
    keys,
  }));
  const defaults = { version: 1, name: "trial", given: "g", answer: "a", probability: 0.5 };
  const rest = { truth: null, right: null, candidates: [], steps: [], stepped: "", image: null };
  return { ...defaults, sides, maps: all, weights: pack(layers), ...rest, ...more };
}

export async function weightsOf(rows, queries = "source", keys = queries) {
  const tokens = (count) => Array.from({ length: count }, (_, i) => `t${i}`);
  const sides = { [queries]: tokens(rows.length), [keys]: tokens(rows[0].length) };
  const [weights] = await decodeMaps(makeRecord(sides, [[queries, keys, 1]], [[rows]]));
  return weights;
}

// One row per query with all its weight at `column(row)`; no weight if that is outside the map.
export function oneHot(rows, columns, column) {
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (_, i) => Number(i === column(row))),
  );
}

// Uniform weights.
export function even(rows, columns) {
  return Array.from({ length: rows }, () => Array(columns).fill(1 / columns));
}

// Decodes the weights of a record, which record.py packs: for every map the step sizes of its rows, then one
// byte per weight.
import { displayTokens } from "./format.js";

export const ALL = -1; // instead of the number of a head: the mean over all heads

export async function decodeMaps(record) {
  const shapes = record.maps.map((map) => {
    const queries = record.sides[map.queries];
    const keys = record.sides[map.keys];
    if (!queries || !keys) throw new Error(`the record has no tokens for the map ${map.name}`);
    return { map, queries, keys };
  });
  const bytes = await unpacked(record.weights);
  let at = 0;
  const maps = shapes.map(({ map, queries, keys }) => {
    const rows = map.heads * queries.length;
    const length = rows * (4 + keys.length);
    if (at + length > bytes.length) throw new Error("the record has fewer weights than its maps require");
    const steps = floats(bytes, at, rows);
    const counts = bytes.subarray(at + 4 * rows, at + length);
    at += length;
    return new Weights(map, displayTokens(queries), displayTokens(keys), steps, counts);
  });
  if (at !== bytes.length) throw new Error("the record has more weights than its maps require");
  return maps;
}

// The browser's own message for corrupted bytes ("Failed to fetch") would be misleading.
async function unpacked(weights) {
  try {
    return await inflate(bytesOf(weights));
  } catch {
    throw new Error("its weights are corrupted");
  }
}

export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A Float32Array on the same bytes would require alignment and a little-endian machine.
function floats(bytes, at, count) {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, 4 * count);
  const values = new Float32Array(count);
  for (let i = 0; i < count; i += 1) values[i] = view.getFloat32(4 * i, true);
  return values;
}

// The weights of one attention map; a weight is the step size of its row times its byte.
export class Weights {
  constructor(map, queries, keys, steps, counts) {
    Object.assign(this, { map, queries, keys, steps, counts });
    this.heads = map.heads;
    this.rows = queries.length;
    this.columns = keys.length;
    this.largest = largestOf(steps, counts, this.columns);
  }

  at(head, row, column) {
    if (head === ALL) return this.row(ALL, row)[column];
    const line = head * this.rows + row;
    return this.steps[line] * this.counts[line * this.columns + column];
  }

  row(head, row) {
    const values = new Float32Array(this.columns);
    const [first, count] = head === ALL ? [0, this.heads] : [head, 1];
    for (let each = first; each < first + count; each += 1) {
      const line = each * this.rows + row;
      const step = this.steps[line] / count;
      const start = line * this.columns;
      for (let column = 0; column < this.columns; column += 1) {
        values[column] += step * this.counts[start + column];
      }
    }
    return values;
  }
}

function largestOf(steps, counts, columns) {
  let largest = 0;
  for (let line = 0; line < steps.length; line += 1) {
    let max = 0;
    for (let at = line * columns; at < (line + 1) * columns; at += 1)
      if (counts[at] > max) max = counts[at];
    largest = Math.max(largest, steps[line] * max);
  }
  return largest;
}

// The columns with the largest weights of a row, in descending order; columns of weight 0 are left out.
export function strongest(row, count = 3) {
  return Array.from(row, (weight, column) => ({ column, weight }))
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight || a.column - b.column)
    .slice(0, count);
}

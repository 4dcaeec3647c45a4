// The weights of a record, as record.py packs them: of every map the steps of its rows, then its bytes.
import { wordsOf } from "./words.js";

export const ALL = -1; // in place of a head: the mean over all of them

export async function decodeMaps(record) {
  const shapes = record.maps.map((map) => {
    const queries = record.sides[map.queries];
    const keys = record.sides[map.keys];
    if (!queries || !keys) throw new Error(`the map ${map.name} has a side that the record does not have`);
    return { map, queries, keys };
  });
  const bytes = await unpacked(record.weights);
  let at = 0;
  const maps = shapes.map(({ map, queries, keys }) => {
    const rows = map.heads * queries.length;
    const length = rows * (4 + keys.length);
    if (at + length > bytes.length) throw new Error("the record has fewer weights than its maps need");
    const steps = floats(bytes, at, rows);
    const counts = bytes.subarray(at + 4 * rows, at + length);
    at += length;
    return new Weights(map, wordsOf(queries), wordsOf(keys), steps, counts);
  });
  if (at !== bytes.length) throw new Error("the record has more weights than its maps need");
  return maps;
}

// What a browser says of damaged bytes ("Failed to fetch") would lead astray.
async function unpacked(weights) {
  try {
    return await inflate(bytesOf(weights));
  } catch {
    throw new Error("its weights are damaged");
  }
}

export function bytesOf(base64) {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A view of the bytes would do only where they are aligned and the machine is little-endian.
function floats(bytes, at, count) {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, 4 * count);
  const found = new Float32Array(count);
  for (let i = 0; i < count; i += 1) found[i] = view.getFloat32(4 * i, true);
  return found;
}

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
    const found = new Float32Array(this.columns);
    const [first, count] = head === ALL ? [0, this.heads] : [head, 1];
    for (let each = first; each < first + count; each += 1) {
      const line = each * this.rows + row;
      const step = this.steps[line] / count;
      const start = line * this.columns;
      for (let column = 0; column < this.columns; column += 1) {
        found[column] += step * this.counts[start + column];
      }
    }
    return found;
  }
}

function largestOf(steps, counts, columns) {
  let largest = 0;
  for (let line = 0; line < steps.length; line += 1) {
    let most = 0;
    for (let at = line * columns; at < (line + 1) * columns; at += 1)
      if (counts[at] > most) most = counts[at];
    largest = Math.max(largest, steps[line] * most);
  }
  return largest;
}

// The columns that a row gives most weight to, the first one first; none that got nothing.
export function strongest(row, count = 3) {
  return Array.from(row, (weight, column) => ({ column, weight }))
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight || a.column - b.column)
    .slice(0, count);
}

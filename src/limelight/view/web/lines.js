// The lines of the flow: which there are, where they run and how thick they are. Arithmetic only.

export const THRESHOLD = 0.02; // below, a line would not be seen and there are very many
const MOST = 1500; // lines at once: of more the strongest, so that scrolling stays smooth

// focus: null for all, or {side: "queries" | "keys", index}. The weak ones come first: the strong lie on top.
export function linesOf(weights, heads, focus = null, threshold = THRESHOLD) {
  const found = [];
  const rows = focus?.side === "queries" ? [focus.index] : [...Array(weights.rows).keys()];
  for (const head of heads) {
    for (const row of rows) {
      const line = weights.row(head, row);
      const [from, to] = focus?.side === "keys" ? [focus.index, focus.index + 1] : [0, line.length];
      for (let column = from; column < to; column += 1) {
        if (line[column] >= threshold) found.push({ head, row, column, weight: line[column] });
      }
    }
  }
  return found.sort((a, b) => a.weight - b.weight);
}

// Lines that begin or end between the first and the last row of tokens in sight; they come as `linesOf` sorts them.
export function inSight(lines, { rows, columns }, [first, last]) {
  const isSeen = (row) => row >= first && row <= last;
  const [down, aside] = [shift(rows, columns), shift(columns, rows)];
  return lines.filter(({ row, column }) => isSeen(row + down) || isSeen(column + aside)).slice(-MOST);
}

// The shorter side stands in the middle of the longer one.
export function shift(count, other) {
  return count < other ? (other - count) / 2 : 0;
}

export function placeOf(index, count, other, height) {
  return (index + shift(count, other) + 0.5) * height;
}

// -> the token at a height, or null where there is none
export function indexAt(y, count, other, height) {
  const index = Math.floor(y / height - shift(count, other));
  return index >= 0 && index < count ? index : null;
}

// How much of its weight a query gives to each key, or a key gets from each query: on the mean over some heads.
export function sharesOf(weights, heads, { side, index }) {
  const found = new Float32Array(side === "queries" ? weights.columns : weights.rows);
  for (const head of heads) {
    for (let i = 0; i < found.length; i += 1) {
      const weight = side === "queries" ? weights.at(head, index, i) : weights.at(head, i, index);
      found[i] += weight / heads.length;
    }
  }
  return found;
}

export function rowHeight(tokens) {
  return Math.min(26, Math.max(15, 620 / tokens));
}

export function thickness(weight) {
  return 0.6 + 5.4 * weight;
}

export function opacity(weight) {
  return Math.min(0.9, 0.12 + 0.78 * Math.sqrt(weight));
}

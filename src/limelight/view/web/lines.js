// The lines of the flow view: selection, position and thickness. Pure functions.

export const THRESHOLD = 0.02; // smaller weights have no line: there are many, and they would be invisible
const MAX_LINES = 1500; // only the strongest are drawn, so that scrolling stays smooth

// focus: null for all lines, or { side: "queries" | "keys", index } for those of one token. The lines are
// sorted by weight, so that strong lines are drawn on top.
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

// The strongest lines that start or end between the first and the last visible row; `lines` are sorted.
export function visibleLines(lines, { rows, columns }, [first, last]) {
  const isVisible = (row) => row >= first && row <= last;
  const [queryShift, keyShift] = [shift(rows, columns), shift(columns, rows)];
  return lines
    .filter(({ row, column }) => isVisible(row + queryShift) || isVisible(column + keyShift))
    .slice(-MAX_LINES);
}

// The shorter side is centred; returns its offset in rows.
export function shift(count, other) {
  return count < other ? (other - count) / 2 : 0;
}

// The vertical centre of a token in pixels.
export function yOf(index, count, other, height) {
  return (index + shift(count, other) + 0.5) * height;
}

// The index of the token at a vertical position, or null.
export function indexAt(y, count, other, height) {
  const index = Math.floor(y / height - shift(count, other));
  return index >= 0 && index < count ? index : null;
}

// The weights of a query on all keys, or of all queries on a key: the mean over some heads.
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

// What a head does, in a number and a word.
import { ALL } from "./decode.js";

const ENOUGH = 0.5; // of the weight, on the mean over rows

const SAME_SIDE = [
  { name: "previous", column: (row) => row - 1 },
  { name: "itself", column: (row) => row },
  { name: "next", column: (row) => row + 1 },
  { name: "first", column: () => 0 },
];

// Row t of a decoder writes target[t] and looks at written[0] to written[t], where written[t] is the token
// just before: so the same index is "previous", the one before it "second last", and "itself" is not there.
const WRITTEN = [
  { name: "previous", column: (row) => row },
  { name: "second last", column: (row) => row - 1 },
  { name: "first", column: () => 0 },
];

export function badgesOf(weights, head) {
  const choices = choicesOf(weights);
  const rows = Array.from({ length: weights.rows }, (_, row) => row).filter((row) => choices[row] > 1);
  const lines = rows.map((row) => weights.row(head, row));
  return {
    entropy: mean(lines.map((line, i) => entropy(line) / Math.log(choices[rows[i]]))),
    looks: placesOf(weights.map)
      .map(({ name, column }) => ({ name, share: shareOf(rows, lines, column) }))
      .filter(({ share }) => share >= ENOUGH),
  };
}

export function entropy(row) {
  let sum = 0;
  for (let i = 0; i < row.length; i += 1) if (row[i] > 0) sum -= row[i] * Math.log(row[i]);
  return sum;
}

// How many keys a row may look at. A row with one only has no choice and says nothing of its head.
export function choicesOf(weights) {
  const causal = isCausal(weights);
  return Array.from({ length: weights.rows }, (_, row) => (causal ? row + 1 : weights.columns));
}

function isCausal({ rows, columns, heads, counts }) {
  if (rows !== columns || rows < 2) return false;
  for (let line = 0; line < heads * rows; line += 1) {
    const later = counts.subarray(line * columns + (line % rows) + 1, (line + 1) * columns);
    if (later.some((count) => count > 0)) return false;
  }
  return true;
}

function placesOf({ queries, keys }) {
  if (queries === keys) return SAME_SIDE;
  return queries === "target" && keys === "written" ? WRITTEN : [];
}

// Only rows that have such a column: the first token has none before it.
function shareOf(rows, lines, column) {
  const there = lines.map((line, i) => line[column(rows[i])]).filter((weight) => weight !== undefined);
  return mean(there);
}

function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0;
}

// Heads as they stand in the model, or those that look at least keys first.
export function sortHeads(heads, sort) {
  if (sort !== "focused") return heads;
  return heads.filter(({ head }) => head !== ALL).sort((a, b) => a.badges.entropy - b.badges.entropy);
}

export function inWords({ entropy: value, looks }) {
  const places = looks.map(({ name }) => name).join(", ");
  return `entropy ${value.toFixed(2)}${places ? `, looks at ${places}` : ""}`;
}

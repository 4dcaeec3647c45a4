// Changes of attention: heads that are switched off ({ map, head }) and cells that are blocked ({ map, head,
// query, key }). `map` is the index of a map; the head ALL means every head of it. Pure functions.
import { ALL } from "./decode.js";

export const MAX_CHANGES = 64;

export function isCell({ query }) {
  return query !== undefined;
}

export function isSame(one, other) {
  return ["map", "head", "query", "key"].every((part) => one[part] === other[part]);
}

// The changes with one more, or without it if it is among them.
export function toggle(changes, change) {
  const others = changes.filter((one) => !isSame(one, change));
  return others.length < changes.length ? others : [...changes, change].slice(-MAX_CHANGES);
}

// Whether a head is switched off, alone or with all heads of its map.
export function isOff(changes, map, head) {
  return changes.some((one) => one.map === map && !isCell(one) && (one.head === head || one.head === ALL));
}

// For a URL: "3.1" is head 1 of map 3, "3.1.2.5" its cell of query 2 and key 5, and "3.-1" all heads.
export function encodeChanges(changes) {
  return changes.map(({ map, head, query, key }) => [map, head, query, key].filter(isGiven).join(".")).join(",");
}

// Undefined if the text is invalid.
export function decodeChanges(text) {
  if (!text) return [];
  const parts = text.split(",");
  const valid = parts.every((part) => /^\d{1,4}\.(-1|\d{1,4})(\.\d{1,4}\.\d{1,4})?$/.test(part));
  if (!valid || parts.length > MAX_CHANGES) return undefined;
  return parts.map((part) => {
    const [map, head, query, key] = part.split(".").map(Number);
    return query === undefined ? { map, head } : { map, head, query, key };
  });
}

// For the server, which knows modules by their names; changes of maps that the record does not have are left out.
export function namedChanges(changes, record) {
  return changes
    .filter(({ map }) => record.maps[map])
    .map(({ map, head, query, key }) => ({
      name: record.maps[map].name,
      ...(head === ALL ? {} : { head }),
      ...(query === undefined ? {} : { query, key }),
    }));
}

export function describeChange({ map, head, query, key }, record) {
  const place = record.maps[map];
  if (!place) return "a head of another model";
  const heads = head === ALL ? "all heads" : `head ${head}`;
  const name = `${place.part}, layer ${place.layer}, ${heads}`;
  if (query === undefined) return `${name} off`;
  const from = record.sides[place.queries][query] ?? query;
  const to = record.sides[place.keys][key] ?? key;
  return `${name}: “${from}” ↛ “${to}”`;
}

// The record with the head switched off, from the results that are stored in it; undefined if there is none.
export function storedVariant(record, changes) {
  if (changes.length !== 1 || isCell(changes[0])) return undefined;
  const [{ map, head }] = changes;
  const found = (record.variants ?? []).find((one) => one.map === map && one.head === head);
  return found && { ...record, ...found.record, variants: record.variants };
}

// The mean over the rows of a head of the share of the weight that moved to other keys, from 0 to 1.
export function shareMoved(weights, base, head) {
  if (!base || base.rows !== weights.rows || base.columns !== weights.columns) return null;
  let total = 0;
  for (let row = 0; row < weights.rows; row += 1) {
    const now = weights.row(head, row);
    base.row(head, row).forEach((weight, column) => (total += Math.abs(now[column] - weight) / 2));
  }
  return total / weights.rows;
}

function isGiven(value) {
  return value !== undefined;
}

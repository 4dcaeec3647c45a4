// What the page shows, as the part of its address behind "#": a link opens the same view again.
import { ALL } from "./decode.js";

export const VIEWS = ["overview", "flow", "image", "translation"];
export const SORTS = ["model", "focused"];
const LONGEST = 20000; // characters of what was typed

export const DEFAULTS = Object.freeze({
  view: VIEWS[0],
  record: 0,
  map: -1, // none chosen: each view has one that it begins with
  head: ALL,
  off: Object.freeze([]), // heads that are switched off
  step: 0,
  sort: SORTS[0],
  given: "",
});

const READERS = {
  view: (text) => oneOf(VIEWS, text),
  record: (text) => number(text, 0),
  map: (text) => number(text, -1),
  head: (text) => number(text, ALL),
  off: (text) => heads(text),
  step: (text) => number(text, 0),
  sort: (text) => oneOf(SORTS, text),
  given: (text) => (text.length <= LONGEST ? text : undefined),
};

export function encodeState(state) {
  const parts = new URLSearchParams();
  for (const [name, usual] of Object.entries(DEFAULTS)) {
    const value = String(state[name] ?? usual);
    if (value !== String(usual)) parts.set(name, value);
  }
  return parts.toString();
}

// What cannot be read is as if it were not there.
export function decodeState(hash) {
  const parts = new URLSearchParams(String(hash).replace(/^#/, ""));
  const state = { ...DEFAULTS };
  for (const [name, read] of Object.entries(READERS)) {
    const text = parts.get(name);
    state[name] = (text === null ? undefined : read(text)) ?? DEFAULTS[name];
  }
  return state;
}

export function readAddress() {
  return decodeState(window.location.hash);
}

export function writeAddress(state) {
  const hash = encodeState(state);
  try {
    window.history.replaceState(
      null,
      "",
      hash ? `#${hash}` : window.location.pathname + window.location.search,
    );
  } catch {
    // In a sandboxed frame of a notebook there is no address to write to.
  }
}

function oneOf(allowed, text) {
  return allowed.includes(text) ? text : undefined;
}

function number(text, least) {
  const value = /^-?\d{1,4}$/.test(text) ? Number(text) : NaN;
  return value >= least ? value : undefined;
}

function heads(text) {
  const found = text.split(",").map((part) => number(part, 0));
  return found.includes(undefined) ? undefined : [...new Set(found)].sort((a, b) => a - b);
}

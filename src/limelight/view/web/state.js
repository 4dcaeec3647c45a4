// The state of the page in its URL, after "#", so that a link opens the same view.
import { decodeChanges, encodeChanges } from "./changes.js";
import { ALL } from "./decode.js";

export const VIEWS = ["overview", "flow", "image", "translation", "layers"];
export const SORTS = ["model", "focused"];
const MAX_GIVEN = 20000; // characters of the input text

export const DEFAULTS = Object.freeze({
  view: VIEWS[0],
  record: 0,
  map: -1, // none selected: each view has its own default
  head: ALL,
  off: Object.freeze([]), // hidden heads of the flow view
  step: 0,
  sort: SORTS[0],
  temperature: 1,
  changes: Object.freeze([]), // of the attention
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
  temperature: (text) => (/^\d(\.\d)?$/.test(text) ? Number(text) : undefined),
  changes: (text) => decodeChanges(text),
  given: (text) => (text.length <= MAX_GIVEN ? text : undefined),
};

const WRITERS = { changes: encodeChanges };

export function encodeState(state) {
  const parts = new URLSearchParams();
  for (const [name, defaultValue] of Object.entries(DEFAULTS)) {
    const write = WRITERS[name] ?? String;
    const value = write(state[name] ?? defaultValue);
    if (value !== write(defaultValue)) parts.set(name, value);
  }
  return parts.toString();
}

// Invalid parts are replaced by their defaults.
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
  writeHash(encodeState(state));
}

// The part of the URL that belongs to one of several explorers: all names begin with the prefix.
export function addressOf(prefix) {
  return {
    read: () => decodeState(selectParts(window.location.hash, prefix)),
    write: (state) => writeHash(replaceParts(window.location.hash, prefix, encodeState(state))),
  };
}

// "a.view=flow&b.step=2", "a." -> "view=flow"
export function selectParts(hash, prefix) {
  const found = new URLSearchParams();
  for (const [name, value] of new URLSearchParams(String(hash).replace(/^#/, ""))) {
    if (name.startsWith(prefix)) found.set(name.slice(prefix.length), value);
  }
  return found.toString();
}

// "a.view=flow&b.step=2", "a.", "head=1" -> "b.step=2&a.head=1"
export function replaceParts(hash, prefix, parts) {
  const found = new URLSearchParams();
  for (const [name, value] of new URLSearchParams(String(hash).replace(/^#/, ""))) {
    if (!name.startsWith(prefix)) found.set(name, value);
  }
  for (const [name, value] of new URLSearchParams(parts)) found.set(prefix + name, value);
  return found.toString();
}

export function writeHash(hash) {
  try {
    window.history.replaceState(
      null,
      "",
      hash ? `#${hash}` : window.location.pathname + window.location.search,
    );
  } catch {
    // The sandboxed frame of a notebook does not allow changes of its URL.
  }
}

function oneOf(allowed, text) {
  return allowed.includes(text) ? text : undefined;
}

function number(text, min) {
  const value = /^-?\d{1,4}$/.test(text) ? Number(text) : NaN;
  return value >= min ? value : undefined;
}

function heads(text) {
  const found = text.split(",").map((part) => number(part, 0));
  return found.includes(undefined) ? undefined : [...new Set(found)].sort((a, b) => a - b);
}

// Requests to the server: they wait for a pause in typing, only the newest response is used, and a busy
// server gets one retry.
import { namedChanges } from "./changes.js";

const TYPING_PAUSE = 300; // milliseconds after the last keystroke
const MAX_RETRY_DELAY = 30; // seconds

export function makeRequester({ send, onRecord, onError, onBusy, pause = TYPING_PAUSE }) {
  let latest = 0; // number of the newest request
  let timer;
  let controller = new AbortController();

  // Cancels older requests: their responses are ignored from here on.
  function begin() {
    clearTimeout(timer);
    controller.abort();
    controller = new AbortController();
    latest += 1;
    onBusy(true);
    return latest;
  }

  async function request(number, input) {
    let result;
    try {
      result = { record: await send(input, controller.signal) };
    } catch (error) {
      result = { error };
    }
    if (number !== latest) return undefined;
    onBusy(false);
    if (result.error) onError(result.error.message);
    else onRecord(result.record);
    return result.record;
  }

  return {
    send: (input) => request(begin(), input),
    sendLater: (input) => {
      const number = begin();
      timer = setTimeout(() => request(number, input), pause);
    },
    cancel: () => {
      begin();
      onBusy(false);
    },
  };
}

// input: a text, the fields of a prompt, or an image file. Returns its record; throws an Error with a message
// for the user.
// `changes` of the attention are those of changes.js, by name.
export async function fetchRecord(
  input,
  signal,
  { changes = [], fetch = globalThis.fetch, wait = sleep } = {},
) {
  const request = { method: "POST", signal, ...contentOf(input) };
  const query = changes.length ? `?changes=${encodeURIComponent(JSON.stringify(changes))}` : "";
  let response = await connect(() => fetch(`api/record${query}`, request));
  if (response.status === 503) {
    await wait(retryDelay(response.headers.get("Retry-After")));
    response = await connect(() => fetch(`api/record${query}`, request));
  }
  return readResponse(response);
}

// Fetches the record with the changes that `getChanges` returns, and without changes as its `base`, which is
// kept for the next request of the same input. A token that is sampled is another one without changes: such a
// record has no base.
export function makeFetcher(getChanges, send = fetchRecord) {
  let last = { input: null, record: null };
  return async (input, signal) => {
    const changes = getChanges();
    const isSampled = input?.temperature !== undefined;
    if (changes.length && isSampled && last.record) {
      return send(input, signal, { changes: namedChanges(changes, last.record) });
    }
    if (last.input !== input || isSampled) last = { input, record: await send(input, signal) };
    const base = last.record;
    const named = namedChanges(changes, base);
    if (!named.length) return base;
    return { ...(await send(input, signal, { changes: named })), base };
  };
}

export async function readResponse(response) {
  let content;
  try {
    content = await response.json();
  } catch {
    throw new Error(`the response of the server is not JSON; its status is ${response.status}`);
  }
  if (response.ok) return content;
  const hasReason = typeof content?.error === "string";
  throw new Error(hasReason ? content.error : `the server responded with status ${response.status}`);
}

// Seconds to wait, from the header Retry-After.
export function retryDelay(header) {
  const seconds = /^\d+$/.test(header ?? "") ? Number(header) : 1;
  return Math.min(seconds, MAX_RETRY_DELAY);
}

function contentOf(input) {
  const fields = typeof input === "string" ? { given: input } : input;
  if (typeof fields.given === "string") {
    return { body: JSON.stringify(fields), headers: { "Content-Type": "application/json" } };
  }
  return { body: input, headers: { "Content-Type": input.type || "application/octet-stream" } };
}

async function connect(send) {
  try {
    return await send();
  } catch {
    throw new Error("the server cannot be reached; is it still running?");
  }
}

function sleep(seconds) {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}

// Questions to the server: not one a keystroke, none answered out of turn, a busy server asked once more.

const PAUSE = 300; // milliseconds after the last keystroke
const MOST_PATIENCE = 30; // seconds

export function makeAsker({ send, onRecord, onError, onBusy, pause = PAUSE }) {
  let turn = 0;
  let timer;
  let running = new AbortController();

  // Whatever comes for an older question is dropped from here on.
  function begin() {
    clearTimeout(timer);
    running.abort();
    running = new AbortController();
    turn += 1;
    onBusy(true);
    return turn;
  }

  async function ask(mine, question) {
    const { signal } = running;
    let found;
    try {
      found = { record: await send(question, signal) };
    } catch (error) {
      found = { error };
    }
    if (mine !== turn) return;
    onBusy(false);
    if (found.error) onError(found.error.message);
    else onRecord(found.record);
  }

  return {
    now: (question) => ask(begin(), question),
    soon: (question) => {
      const mine = begin();
      timer = setTimeout(() => ask(mine, question), pause);
    },
    stop: () => {
      begin();
      onBusy(false);
    },
  };
}

// question: a string or a file; -> the record, or an error in words
export async function look(question, signal, { fetch = globalThis.fetch, wait = sleep } = {}) {
  const request = { method: "POST", signal, ...contentOf(question) };
  let response = await reach(() => fetch("api/look", request));
  if (response.status === 503) {
    await wait(patience(response.headers.get("Retry-After")));
    response = await reach(() => fetch("api/look", request));
  }
  return read(response);
}

export async function read(response) {
  let content;
  try {
    content = await response.json();
  } catch {
    throw new Error(`the server answered ${response.status} without words`);
  }
  if (!response.ok)
    throw new Error(
      typeof content?.error === "string" ? content.error : `the server answered ${response.status}`,
    );
  return content;
}

export function patience(header) {
  const seconds = /^\d+$/.test(header ?? "") ? Number(header) : 1;
  return Math.min(seconds, MOST_PATIENCE);
}

function contentOf(question) {
  if (typeof question !== "string") {
    return { body: question, headers: { "Content-Type": question.type || "application/octet-stream" } };
  }
  return { body: JSON.stringify({ given: question }), headers: { "Content-Type": "application/json" } };
}

async function reach(ask) {
  try {
    return await ask();
  } catch {
    throw new Error("the server cannot be reached; is it still running?");
  }
}

function sleep(seconds) {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}

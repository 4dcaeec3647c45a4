// The live page: sends the input to the server and shows the record of the response.
import { make } from "./dom.js";
import { explore } from "./explorer.js";
import { NextTokenPanel } from "./next_token_panel.js";
import { makeFetcher, makeRequester, readResponse } from "./requests.js";
import { readAddress } from "./state.js";
import { Writer } from "./writer.js";

const form = document.getElementById("input-form");
const message = document.getElementById("message");
const busy = document.getElementById("busy");
const explorer = explore(document.getElementById("explorer"), [], {
  recompute: () => repeat(),
  state: readAddress(),
});

let onRecord = () => {}; // what the form does with a new record
let repeat = () => {}; // sends the last input again, because the attention was changed

const requester = makeRequester({
  send: makeFetcher(() => explorer.state.changes),
  onRecord: (record) => {
    message.textContent = "";
    onRecord(record);
    explorer.show(record);
  },
  onError: (text) => {
    message.textContent = text;
  },
  onBusy: (isBusy) => {
    form.setAttribute("aria-busy", String(isBusy));
    busy.textContent = isBusy ? "computing …" : "";
  },
});

function addTextForm({ longest, examples, generates }, given) {
  const rows = generates ? "3" : "2";
  const field = make("textarea", { id: "given", rows, spellcheck: "false", autocomplete: "off" });
  field.value = given;
  const writing = generates ? addWriting(field) : null;
  const submit = (send) => {
    explorer.set({ given: field.value });
    if (writing) writing.writer.type(field.value, send);
    else if (field.value.trim()) send(field.value);
    else requester.cancel();
  };
  repeat = writing ? () => writing.writer.refresh() : () => submit(requester.send);
  field.addEventListener("input", () => submit(requester.sendLater));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || generates) return; // line ends belong to running text
    event.preventDefault();
    submit(requester.send);
  });
  const hint = `The prediction and the attention maps update as you type. Maximum: ${longest} tokens.`;
  form.append(
    make("label", { for: "given", class: "label" }, "Input text"),
    field,
    make("p", { class: "muted note" }, hint),
    ...(writing ? [writing.panel.node] : []),
  );
  form.append(
    exampleButtons(examples, (example) => {
      field.value = example;
      submit(requester.send);
    }),
  );
  // A link to another input was pasted into the open page.
  window.addEventListener("hashchange", () => {
    const { given: text } = readAddress();
    if (!text || text === field.value) return;
    field.value = text;
    submit(requester.send);
  });
  if (generates || given.trim()) submit(requester.send);
}

// The panel of a language model, which adds tokens to the text of the field.
function addWriting(field) {
  const temperature = () => explorer.state.temperature;
  const writer = new Writer({
    requester,
    temperature,
    onAdded: ({ given }) => {
      field.value = given;
      field.scrollTop = field.scrollHeight;
      explorer.set({ given: field.value });
    },
    onChange: () => panel.update(),
  });
  const setTemperature = (value) => {
    explorer.set({ temperature: value });
    explorer.redraw();
  };
  const panel = new NextTokenPanel({ temperature, setTemperature, writer });
  onRecord = (record) => {
    writer.received(record);
    panel.show(record);
    explorer.set({ step: record.steps.length - 1 });
  };
  window.addEventListener("hashchange", () => panel.draw()); // the temperature
  return { writer, panel };
}

function addImageForm() {
  const picker = make("input", { type: "file", id: "file", accept: "image/*", class: "hidden" });
  const zone = make(
    "label",
    { for: "file", class: "drop" },
    picker,
    make("strong", {}, "Drop an image here"),
    " or choose a file",
  );
  const submit = (files) => {
    if (!files.length) return;
    const [file] = files;
    repeat = () => requester.send(file);
    repeat();
  };
  const hover = (isOver) => (event) => {
    event.preventDefault();
    zone.classList.toggle("over", isOver);
  };
  picker.addEventListener("change", () => submit(picker.files));
  zone.addEventListener("dragover", hover(true));
  zone.addEventListener("dragleave", hover(false));
  zone.addEventListener("drop", (event) => {
    hover(false)(event);
    submit(event.dataTransfer.files);
  });
  form.append(zone);
}

function exampleButtons(examples, onChoose) {
  const list = make("div", { class: "examples", role: "group", "aria-label": "examples" });
  for (const example of examples) {
    list.append(
      make(
        "button",
        { type: "button", class: "example", title: example, click: () => onChoose(example) },
        example,
      ),
    );
  }
  return list;
}

async function start() {
  const about = await readResponse(await fetch("api/about"));
  document.title = `${about.name} · limelight`;
  document.getElementById("name").textContent = about.name;
  if (about.first) explorer.show(about.first, { canChange: false });
  if (about.kind === "image") addImageForm();
  else addTextForm(about, explorer.state.given || about.sample);
}

form.addEventListener("submit", (event) => event.preventDefault());
start().catch((error) => {
  message.textContent = error.message;
});

// The live page: sends the input to the server and shows the record of the response.
import { make } from "./dom.js";
import { explore } from "./explorer.js";
import { fetchRecord, makeRequester, readResponse } from "./requests.js";
import { readAddress } from "./state.js";

const form = document.getElementById("input-form");
const message = document.getElementById("message");
const busy = document.getElementById("busy");
const explorer = explore(document.getElementById("explorer"), [], { live: true, state: readAddress() });

const requester = makeRequester({
  send: fetchRecord,
  onRecord: (record) => {
    message.textContent = "";
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

function addTextForm({ longest, examples }, given) {
  const field = make("textarea", { id: "given", rows: "2", spellcheck: "false", autocomplete: "off" });
  field.value = given;
  const submit = (send) => {
    explorer.set({ given: field.value });
    if (field.value.trim()) send(field.value);
    else requester.cancel();
  };
  field.addEventListener("input", () => submit(requester.sendLater));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    submit(requester.send);
  });
  const hint = `The prediction and the attention maps update as you type. Maximum: ${longest} tokens.`;
  form.append(
    make("label", { for: "given", class: "label" }, "Input text"),
    field,
    make("p", { class: "muted note" }, hint),
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
  if (given.trim()) submit(requester.send);
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
    if (files.length) requester.send(files[0]);
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
  if (about.first) explorer.show(about.first);
  if (about.kind === "image") addImageForm();
  else addTextForm(about, explorer.state.given || about.sample);
}

form.addEventListener("submit", (event) => event.preventDefault());
start().catch((error) => {
  message.textContent = error.message;
});

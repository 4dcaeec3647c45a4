// The report: its records stand in the page itself.
import { explore } from "./explorer.js";

const records = JSON.parse(document.getElementById("records").textContent);
explore(document.getElementById("explorer"), records);

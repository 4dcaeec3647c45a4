// The report page: its records are embedded in the page.
import { explore } from "./explorer.js";

const records = JSON.parse(document.getElementById("records").textContent);
explore(document.getElementById("explorer"), records);

"use strict";
const form = document.querySelector("form");
const rows = [...document.querySelectorAll("[data-text]")];
const count = document.querySelector("#count");

// Show a row if it contains all words, has the level and the basis, and one of the checked targets has the verdict.
function filter() {
  const data = new FormData(form);
  const words = String(data.get("text")).toLowerCase().split(/\s+/).filter(Boolean);
  const targets = new Set(data.getAll("target"));
  let shown = 0;
  for (const row of rows) {
    const { text, level, basis, states, target } = row.dataset;
    const verdicts = states.split(",");
    const fits = words.every((word) => text.toLowerCase().includes(word)) &&
      (!data.get("level") || level === data.get("level")) &&
      (!data.get("basis") || basis === data.get("basis")) &&
      (!target || targets.has(target)) &&
      (!data.get("verdict") || verdicts.some((verdict, number) =>
        verdict === data.get("verdict") && (target || targets.has(String(number)))));
    row.hidden = !fits;
    shown += fits && row.matches("tr");
  }
  for (const part of document.querySelectorAll("[data-part]")) {
    part.hidden = ![...part.querySelectorAll("[data-text]")].some((row) => !row.hidden);
  }
  for (const cell of document.querySelectorAll("[data-column]")) {
    cell.hidden = !targets.has(cell.dataset.column);
  }
  count.textContent = `${shown} requirements shown`;
}

function open_place() {
  const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (place instanceof HTMLDetailsElement) {
    place.open = true;
    place.hidden = false;
    place.closest("[data-part]")?.removeAttribute("hidden");
    place.scrollIntoView();
    place.querySelector("summary").focus();
  }
}

async function copy(button) {
  const code = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    getSelection().selectAllChildren(code);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

form.addEventListener("input", filter);
form.addEventListener("change", filter);
form.addEventListener("reset", () => setTimeout(filter));
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", open_place);
document.addEventListener("click", (event) => {
  if (event.target.matches("button.copy")) copy(event.target);
  const link = event.target.closest("a[href^='#']");
  if (link && link.hash === location.hash) open_place();
});
form.hidden = false;
filter();
open_place();

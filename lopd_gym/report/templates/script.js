"use strict";
// Everything here is comfort: without it the page shows the same.
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

// Colours: the reader's system decides, until the button does.
const button = document.getElementById("theme");
const themes = ["auto", "light", "dark"];
let theme = "auto";
const setTheme = (name) => {
  theme = themes.includes(name) ? name : "auto";
  document.documentElement.dataset.theme = theme;
  button.textContent = "colours: " + theme;
  try { localStorage.setItem("lopd-gym-theme", theme); } catch { /* a file may not be allowed to */ }
};
button.hidden = false;
button.onclick = () => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);
try { setTheme(localStorage.getItem("lopd-gym-theme")); } catch { setTheme("auto"); }

// Episodes: filter by reason, open all, and walk through them by keys.
const episodes = all("#episodes .episode");
const shown = () => episodes.filter((episode) => !episode.hidden);
for (const row of all(".filters")) row.hidden = false;
const filters = all(".filters [data-tag]");
for (const filter of filters) {
  filter.onclick = () => {
    for (const other of filters) other.setAttribute("aria-pressed", String(other === filter));
    const tag = filter.dataset.tag;
    for (const episode of episodes) {
      episode.hidden = tag !== "" && !episode.dataset.tags.split("|").includes(tag);
    }
  };
}
for (const opener of all(".open-all")) {
  opener.onclick = () => {
    const open = opener.getAttribute("aria-pressed") !== "true";
    opener.setAttribute("aria-pressed", String(open));
    for (const episode of shown()) episode.open = open;
  };
}
document.addEventListener("keydown", (event) => {
  const step = { j: 1, k: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  const list = shown();
  const here = list.findIndex((episode) => episode.contains(document.activeElement));
  const next = list[here === -1 && step < 0 ? list.length - 1 : here + step];
  if (next) next.querySelector("summary").focus();
});

// A link to an episode opens it.
const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();

// Tokens: a touch shows what a pointer's tooltip shows.
const numbers = document.getElementById("token-numbers");
document.addEventListener("click", (event) => {
  if (numbers && event.target.matches(".tokens .t")) {
    numbers.textContent = JSON.stringify(event.target.textContent) + ": " + event.target.title;
  }
});

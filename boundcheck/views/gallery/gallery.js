"use strict";
(() => {
  const reports = document.getElementById("reports");
  const order = document.getElementById("order");
  const filter = document.getElementById("filter");
  const cards = [...reports.querySelectorAll("article")];
  if (!cards.length) return;
  const falling = ["verdict", "error", "size", "seconds"]; // numbers, the largest first
  const show = () => {
    const key = order.value;
    const compare = falling.includes(key)
      ? (a, b) => Number(b.dataset[key]) - Number(a.dataset[key])
      : (a, b) => a.dataset[key].localeCompare(b.dataset[key]);
    reports.append(...[...cards].sort(compare));
    const words = filter.value.toLowerCase();
    let shown = 0;
    for (const card of cards) {
      card.hidden = !card.textContent.toLowerCase().includes(words);
      shown += !card.hidden;
    }
    const all = cards.length === 1 ? "1 report" : `${cards.length} reports`;
    document.getElementById("count").textContent = words ? `${shown} of ${all}` : all;
  };
  for (const figure of reports.querySelectorAll(".figure")) {
    figure.addEventListener("click", () => figure.classList.toggle("large"));
  }
  order.addEventListener("change", show);
  filter.addEventListener("input", show);
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("controls").hidden = false;
})();

// The bounds in words and numbers, by method: the text alternative of the chart, and its legend.

/** @param {Row} row */
function line(row) {
  const box = make("input", { type: "checkbox", "aria-label": `draw ${row.bound} of ${row.method}` });
  box.addEventListener("change", () => {
    if (box.checked) state.shown.add(row.id); else state.shown.delete(row.id);
    changed();
  });
  const about = DATA.bounds[row.bound];
  const name = make("button", { type: "button", class: "name", text: row.bound, title: about.title, onclick: () => choose(row.id) });
  const sample = swatch("", []);
  const value = make("td", { class: "number value" }), ratio = make("td", { class: "number ratio" });
  const verdict = make("span");
  const element = make("tr", { "data-row": row.id }, make("th", { scope: "row" }, box, sample, name),
    ...(REPORT ? [make("td", { class: "verdict" }, verdict)] : []), value, ...(REPORT ? [ratio] : []),
    make("td", { class: "wide", text: about.reference }), make("td", { class: "wide", text: about.kind + (row.fixed ? ", fixed" : "") }));
  refreshers.push(() => {
    box.checked = state.shown.has(row.id);
    sample.firstChild.setAttribute("stroke", rowColour(row));
    sample.firstChild.setAttribute("stroke-dasharray", dashesOf(row).join(" "));
    name.setAttribute("aria-pressed", String(state.selected === row.id));
    element.classList.toggle("chosen", state.selected === row.id);
    const now = valueAt(row, state.t);
    const fails = failing(row, state.t);
    value.classList.toggle("silent", now === null);
    value.textContent = now !== null ? number(now) : fails >= 0 ? about.remedies[fails] : "says nothing here";
    value.dataset.value = now === null ? "" : String(now);
    if (!REPORT) return;
    const times = ratioAt(row, state.t), moved = isChanged(row), bound = boundOf(row);
    ratio.textContent = times === null ? "–" : `×${number(times, 3)}`;
    verdict.textContent = moved ? withTheseSliders(row) : bound.verdict;
    verdict.className = moved ? (isBelow(row) ? "doubt" : "small") : tone(bound.verdict, bound.violated);
  });
  return element;
}

/** The measured error of a method as the first line of its table. @param {string} method */
function errorLine(method) {
  const value = make("td", { class: "number value" });
  refreshers.push(() => {
    const error = errorAt(method, state.t);
    value.textContent = number(error);
    value.dataset.value = error === null ? "" : String(error);
  });
  const { policy } = REPORT.curves.find((curve) => curve.method === method);
  return make("tr", { "data-error": method }, make("th", { scope: "row" }, make("strong", { text: "error, measured" })),
    make("td", { class: "verdict small", text: policy && `with ${policy}` }), value, make("td", { class: "ratio" }), make("td", { class: "wide" }), make("td", { class: "wide" }));
}

function buildTables() {
  for (const method of METHODS) {
    const rows = ROWS.filter((row) => row.method === method);
    const heads = REPORT ? ["bound", "verdict", "value", "bound/error", "theorem", "kind"] : ["bound", "value", "theorem", "kind"];
    const wide = ["theorem", "kind"], right = ["value", "bound/error"];
    const head = make("tr", {}, ...heads.map((text) =>
      make("th", { scope: "col", class: wide.includes(text) ? "wide" : right.includes(text) ? "number" : null, text })));
    const table = make("table", {}, make("caption", { text: DATA.methods[method] }), make("thead", {}, head),
      make("tbody", {}, ...(REPORT ? [errorLine(method)] : []), ...rows.map(line)));
    const none = REPORT && !rows.length ? [make("p", { class: "hint", text: `No bound applies to ${method} on this problem. The reasons are below the verdicts.` })] : [];
    const open = REPORT || rows.some((row) => row.shown);
    const details = make("details", { open, id: `m-${method}` }, make("summary", {}, make("h3", { text: method.replaceAll("-", " ").replace(/^(itd|aid).*/, method.toUpperCase()) })), table, ...none);
    byId("tables").append(details);
    refreshers.push(() => (details.hidden = Boolean(REPORT) && method !== state.method));
  }
  refreshers.push(() => {
    const k = state.follow ? (REPORT ? "k as in the run" : "k = t") : `k = ${state.k}`;
    byId("where").textContent = `t = ${state.t}` + (byId("follow") ? `, ${k}` : "");
  });
  if (ROWS.some((row) => row.fixed)) byId("values-hint").append(' Bounds marked "fixed" come from the run and ignore the sliders.');
  if (REPORT) buildMethods();
}

/** Choose the method with drawn bounds; there is one at a time. */
function buildMethods() {
  const box = byId("methods");
  box.hidden = METHODS.length < 2;
  for (const method of METHODS) {
    const button = make("button", { type: "button", role: "radio", text: method, onclick: () => pick(method) });
    refreshers.push(() => {
      button.setAttribute("aria-checked", String(state.method === method));
      button.tabIndex = state.method === method ? 0 : -1;
    });
    box.append(button);
  }
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    pick(METHODS[(METHODS.indexOf(state.method) + step + METHODS.length) % METHODS.length]);
    box.querySelectorAll("button")[METHODS.indexOf(state.method)].focus();
  });
}

/** @param {string} method */
function pick(method) {
  state.method = method;
  const rows = ROWS.filter((row) => row.method === method);
  state.selected = (rows.find((row) => row.bound === method.split(":")[0]) || rows.find((row) => row.shown) || rows[0] || { id: "" }).id;
  state.link = -1;
  changed();
}

/** Choose a bound to show. @param {string} id */
function choose(id) {
  state.selected = id;
  state.link = -1;
  changed();
}

// Draw everything again, once for each frame in which something changed.

let waiting = false;

function changed() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; show(); });
}

function show() {
  paint();
  for (const refresh of refreshers) refresh();
  drawChart();
  const row = selectedRow();
  byId("theorem").hidden = byId("proof").hidden = !row;
  if (row) { showTheorem(row); showProof(row); }
}

function buildStories() {
  const box = byId("stories"), text = make("p", { id: "story" });
  const buttons = DATA.stories.map((story) => make("button", { type: "button", text: story.name, "aria-pressed": "false", onclick: (event) => {
    for (const control of DATA.controls) state.values[control.key] = control.value;
    state.tied = true;
    Object.assign(state.values, story.set);
    follow("q");
    Object.assign(state, { t: Math.min(story.t, state.horizon), follow: story.k === null, selected: story.select, link: -1, shown: new Set(story.show) });
    if (story.k !== null) state.k = Math.min(story.k, state.horizon);
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
    text.textContent = story.text;
    changed();
  } }));
  box.append(make("div", { class: "buttons" }, ...buttons), text);
  box.hidden = !DATA.stories.length;
  if (DATA.stories.length) { buttons[0].setAttribute("aria-pressed", "true"); text.textContent = DATA.stories[0].text; }
}

function buildTheme() {
  const asked = matchMedia("(prefers-color-scheme: dark)"), button = byId("theme");
  let dark = asked.matches;
  const dress = () => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.documentElement.style.colorScheme = dark ? "dark" : "light";
    button.textContent = dark ? "Switch to light" : "Switch to dark";
    changed();
  };
  button.addEventListener("click", () => { dark = !dark; dress(); });
  asked.addEventListener("change", () => { dark = asked.matches; dress(); });
  dress();
}

/** Announce the value of the chosen bound after the slider was released. */
function announce() {
  const row = selectedRow();
  if (row) byId("status").textContent = `${row.bound} at t = ${state.t}: ${number(valueAt(row, state.t))}`;
}

byId("version").textContent = DATA.version;
buildTheme();
buildStories();
buildControls();
buildTables();
if (REPORT) buildReport();
byId("log").addEventListener("change", (event) => { state.log = event.target.checked; changed(); });
byId("stage").addEventListener("change", () => requestAnimationFrame(() => requestAnimationFrame(announce)));
show();

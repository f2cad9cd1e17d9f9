// The chart: bounds over t, measured errors, the floor, and the chosen t as a line.

const DASHES = { paper: [], local: [7, 4], other: [10, 3, 2, 3], posteriori: [2, 4] };
const KNOWN = { proved: [10, 4], probable: [10, 3, 2, 3], estimated: [3, 4] }; // on the page of a report, as in figures
const MOVED = [1, 3];
const KNOWN_WORDS = { proved: "dashed: proved", probable: "dash-dotted: probable", estimated: "dotted: estimated" };
const DEEPEST = 22; // the most decades in view
const POINTS = 400;
let plot = null;
let built = "";

/** The t at which curves are computed. @returns {number[]} */
function places() {
  const count = Math.min(POINTS, state.horizon);
  const found = Array.from({ length: count }, (_, i) => Math.round(1 + (i * (state.horizon - 1)) / Math.max(1, count - 1)));
  return [...new Set(found)];
}

/** The dashes of a bound: who proved it; on the page of a report, how it is known. @param {Row} row */
function dashesOf(row) {
  if (!REPORT) return DASHES[row.line];
  return isChanged(row) ? MOVED : KNOWN[boundOf(row).known];
}

/** The curves that are drawn, in order, each with a function from t to a value. */
function curves() {
  const found = [];
  if (REPORT) {
    const mine = REPORT.curves.find((curve) => curve.method === state.method);
    found.push({ name: "", floor: true, at: (t) => (t <= mine.floor.length ? mine.floor[t - 1] : null) });
    for (const curve of REPORT.curves) {
      const own = curve === mine;
      found.push({ name: `error of ${curve.method}`, colour: methodColour(curve.method), width: own ? 3.5 : 1.5, dash: [], at: (t) => errorAt(curve.method, t) });
    }
  }
  for (const row of drawn()) {
    const where = REPORT || row.bound.startsWith(row.method) ? "" : ` (${row.method})`;
    found.push({ name: row.bound + where, colour: rowColour(row), width: 2.2, dash: dashesOf(row), joined: row.fixed !== null, at: (t) => valueAt(row, t) });
  }
  return found;
}

/** A short sample of a line. @param {string} colour @param {number[]} dash @param {number} width */
function swatch(colour, dash, width = 2.5) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({ width: 34, height: 10, "aria-hidden": "true" })) svg.setAttribute(name, String(value));
  const given = { x1: 1, y1: 5, x2: 33, y2: 5, stroke: colour, "stroke-width": width, "stroke-dasharray": dash.join(" ") };
  for (const [name, value] of Object.entries(given)) line.setAttribute(name, String(value));
  svg.append(line);
  return svg;
}

/** The limits of the error axis: whole decades around the drawn values. @param {(?number)[][]} columns */
function limits(columns) {
  let low = Infinity, high = -Infinity;
  for (const column of columns) {
    for (const x of column) {
      if (x !== null && x > 0) { low = Math.min(low, x); high = Math.max(high, x); }
    }
  }
  if (!(high > 0)) return state.log ? [0.1, 10] : [0, 1];
  if (!state.log) return [0, 1.05 * high];
  const top = Math.ceil(Math.log10(high) + 0.05);
  return [10 ** Math.max(Math.floor(Math.log10(low)), top - DEEPEST, -300), 10 ** Math.min(top, 300)];
}

function drawChart() {
  const lines = curves();
  const ts = places();
  const columns = lines.map((line) => ts.map((t) => {
    const value = line.at(t);
    return value !== null && (value > 0 || !state.log) ? value : null;
  }));
  const range = limits(columns.filter((_, i) => !lines[i].floor));
  const shape = JSON.stringify([lines.map((line) => [line.name, line.colour, line.dash]), state.log, colourOf("--back")]);
  if (shape !== built || !plot) {
    if (plot) plot.destroy();
    plot = new uPlot(options(lines), [ts, ...columns], byId("chart"));
    built = shape;
    byId("legend").replaceChildren(...lines.filter((line) => !line.floor).map((line) =>
      make("li", {}, swatch(line.colour, line.dash, line.width), line.name)));
    if (REPORT) noteLines();
  }
  const floor = lines.findIndex((line) => line.floor);
  byId("floor-note").hidden = floor < 0 || !columns[floor].some((x) => x !== null && x > range[0]);
  plot.range = range;
  plot.setData([ts, ...columns]);
}

/** The key of the dashes of the drawn bounds. */
function noteLines() {
  const words = Object.keys(KNOWN).filter((known) => drawn().some((row) => !isChanged(row) && boundOf(row).known === known)).map((known) => KNOWN_WORDS[known]);
  if (drawn().some(isChanged)) words.push("finely dotted: with constants that you changed");
  byId("lines-note").hidden = !words.length;
  byId("lines-note").textContent = `solid: errors · bounds ${words.join(" · ")}`;
}

/** @param {ReturnType<typeof curves>} lines */
function options(lines) {
  const ink = colourOf("--dim"), rule = colourOf("--rule");
  const font = `${Math.round(0.8 * parseFloat(getComputedStyle(document.documentElement).fontSize))}px system-ui, sans-serif`;
  const size = parseFloat(font);
  const axis = { stroke: ink, font, labelFont: font, labelSize: 1.7 * size, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
  const box = byId("chart").getBoundingClientRect();
  return {
    width: Math.floor(box.width),
    height: Math.floor(box.height),
    legend: { show: false },
    pxAlign: 0,
    padding: [size / 2, size, 0, 0],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, bind: { dblclick: () => null } },
    scales: {
      x: { time: false, range: () => [Math.min(1, state.horizon - 1), state.horizon] },
      y: { distr: state.log ? 3 : 1, range: (u) => u.range || [0.1, 10] },
    },
    axes: [
      { ...axis, label: "t", size: 2.2 * size, incrs: [1, 2, 5].flatMap((x) => [0, 1, 2, 3, 4].map((n) => x * 10 ** n)).sort((a, b) => a - b) },
      { ...axis, label: REPORT ? "error" : "bound", size: 4.6 * size, space: 2.2 * size, ...(state.log ? { splits: decades, filter: (u, splits) => splits } : {}),
        values: (u, splits) => splits.map((x) => (state.log ? power(Math.round(Math.log10(x))) : number(x, 3))) },
    ],
    series: [{}, ...lines.map((line) => line.floor
      ? { stroke: "transparent", fill: colourOf("--floor"), fillTo: (u) => u.scales.y.min, points: { show: false }, pxAlign: 0 }
      : { stroke: line.colour, width: line.width, dash: line.dash, spanGaps: Boolean(line.joined), points: { show: false }, pxAlign: 0 })],
    hooks: { draw: [marker], ready: [(u) => u.over.addEventListener("click", (event) => {
      state.t = Math.min(state.horizon, Math.max(1, Math.round(u.posToVal(event.offsetX, "x"))));
      changed();
    })] },
  };
}

/** Whole decades, not too many. @param {any} u @param {number} axis @param {number} low @param {number} high */
function decades(u, axis, low, high) {
  const [first, last] = [Math.round(Math.log10(low)), Math.round(Math.log10(high))];
  const step = Math.max(1, Math.ceil((last - first) / Math.max(2, u.bbox.height / devicePixelRatio / 45)));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
}

/** The line at the chosen t, and a dot on every curve. @param {any} u */
function marker(u) {
  const x = u.valToPos(state.t, "x", true);
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = colourOf("--text");
  ctx.lineWidth = 1.2 * devicePixelRatio;
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  for (const line of curves()) {
    const value = line.floor ? null : line.at(state.t);
    if (value === null || (state.log && value <= 0)) continue;
    const y = u.valToPos(value, "y", true);
    if (y < bbox.top || y > bbox.top + bbox.height) continue;
    ctx.fillStyle = line.colour;
    ctx.beginPath();
    ctx.arc(x, y, 4 * devicePixelRatio, 0, 7);
    ctx.fill();
  }
  ctx.restore();
}

new ResizeObserver(() => {
  const box = byId("chart").getBoundingClientRect();
  if (plot && box.width > 50) plot.setSize({ width: Math.floor(box.width), height: Math.floor(box.height) });
}).observe(byId("chart"));

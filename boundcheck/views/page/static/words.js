// Numbers, formulas and elements.

/** @param {string} id @returns {HTMLElement} */
const byId = (id) => document.getElementById(id);

/**
 * An element with attributes (properties for `text` and `on…`) and children.
 * @param {string} tag @param {Object<string, any>} [given] @param {...(Node|string)} children
 */
function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** @param {number} exponent */
const power = (exponent) => "10" + [...String(exponent)].map((digit) => RAISED[digit]).join("");

/** A number as short text: 0.0123, 154, 1.23×10⁻⁷. @param {?number} x @param {number} [digits] */
function number(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return "∞";
  if (x === 0) return "0";
  const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
  if (+exponent >= -3 && +exponent < 6) return String(Number(x.toPrecision(digits)));
  return `${Number(mantissa)}×${power(+exponent)}`;
}

/** The formula as mathematics, with MathML for a screen reader. @param {string} latex @param {boolean} [display] */
function formula(latex, display = false) {
  const element = display ? make("div", { class: "formula", tabindex: 0, role: "group", "aria-label": "formula" }) : make("span");
  katex.render(latex, element, { displayMode: display, throwOnError: false, output: "htmlAndMathml" });
  return element;
}

/** @param {string} name */
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const isDark = () => document.documentElement.dataset.theme === "dark";

/** The colour of a verdict. @param {string} verdict @param {boolean} violated */
const tone = (verdict, violated) => (violated ? "bad" : verdict.startsWith("holds") ? "good" : "doubt");

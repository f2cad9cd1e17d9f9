"""What the tests of the page ask of it, as JavaScript."""

SET = """places => {
  for (const [name, position] of Object.entries(places)) {
    const slider = document.getElementById("c-" + name);
    if (!slider.disabled) { slider.value = position; slider.dispatchEvent(new Event("input", {bubbles: true})); }
  }
}"""
SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
CONSTANTS = """() => Object.fromEntries([...document.querySelectorAll("input[type=range]")]
  .map(e => [e.id.slice(2), Number(e.dataset.value)]))"""
VALUES = """() => Object.fromEntries([...document.querySelectorAll("tr[data-row]")]
  .map(e => [e.dataset.row, e.querySelector(".value").dataset.value]))"""

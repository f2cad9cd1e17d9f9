// Typesets what arithmatex marked: \(…\) in a line, \[…\] on lines of its own.
for (const element of document.querySelectorAll(".arithmatex")) {
  const latex = element.textContent.trim();
  const display = latex.startsWith("\\[");
  katex.render(latex.slice(2, -2), element, { displayMode: display, throwOnError: false });
}

// What is wrong with how the page looks, a sentence each.
(() => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    wrong.push(`the page scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}`);
  }
  const shown = (element) => element.checkVisibility();
  const name = (element) =>
    `<${element.tagName}${element.className?.baseVal ?? element.className ? "." + element.className : ""}> ` +
    `"${element.textContent.trim().slice(0, 40)}"`;
  const apart = (a, b, by) =>
    a.right <= b.left + by || b.right <= a.left + by || a.bottom <= b.top + by || b.bottom <= a.top + by;

  // Texts of the page: each element that holds text itself, by the boxes of that text.
  const texts = [];
  for (const element of document.querySelectorAll("body *:not(svg *)")) {
    if (!shown(element) || element.closest("svg")) continue;
    for (const node of element.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || !node.textContent.trim()) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) {
        if (box.width < 1) continue;
        const scrolls = element.closest(".table, pre");
        if (box.right > root.clientWidth + 1 && !scrolls) wrong.push(`beyond the edge: ${name(element)}`);
        if (!scrolls) texts.push([box, element]);
      }
    }
  }
  for (let i = 0; i < texts.length; i++) {
    for (let j = i + 1; j < texts.length; j++) {
      if (texts[i][1] !== texts[j][1] && !apart(texts[i][0], texts[j][0], 2)) {
        wrong.push(`${name(texts[i][1])} lies on ${name(texts[j][1])}`);
      }
    }
  }

  // Boxes of one kind beside each other: answers, panels, tables.
  for (const kind of [".answer", ".panel", ".table", "figure.plot", "section"]) {
    const boxes = [...document.querySelectorAll(kind)].filter(shown);
    boxes.forEach((one, i) => boxes.slice(i + 1).forEach((other) => {
      if (!apart(one.getBoundingClientRect(), other.getBoundingClientRect(), 1)) {
        wrong.push(`${kind}: ${name(one)} lies on ${name(other)}`);
      }
    }));
  }

  // Texts of a figure: inside it, readable, none upon another.
  for (const svg of document.querySelectorAll("svg")) {
    if (!shown(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const labels = [...svg.querySelectorAll("text")].map((text) => [text.getBoundingClientRect(), text]);
    labels.forEach(([box, text], i) => {
      if (box.left < frame.left - 2 || box.right > frame.right + 2 ||
          box.top < frame.top - 2 || box.bottom > frame.bottom + 2) {
        wrong.push(`outside its figure: ${name(text)}`);
      }
      const scale = text.getScreenCTM();
      const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
      if (size < 8) wrong.push(`too small to read: ${name(text)}`);
      labels.slice(i + 1).forEach(([other, second]) => {
        if (!apart(box, other, 3)) wrong.push(`in a figure ${name(text)} lies on ${name(second)}`);
      });
    });
  }
  return [...new Set(wrong)].slice(0, 20);
})()

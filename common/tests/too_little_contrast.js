// Texts with less than 4.5 : 1 against what is behind them, in the page and in its pictures; controls without a name.
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || element.closest("script, option") || !element.getClientRects().length) continue;
    const drawn = element instanceof SVGElement, box = drawn && element.previousElementSibling;
    const inCell = box?.tagName === "rect" && element.getAttribute("text-anchor") === "middle";
    const [a, b] = [rgb(getComputedStyle(element)[drawn ? "fill" : "color"]), inCell ? rgb(getComputedStyle(box).fill) : behind(element)]
      .map(luminance).sort((p, q) => q - p);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${element.textContent.trim().slice(0, 30)}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  for (const control of document.querySelectorAll("input, select, button, [tabindex], svg[role=img]")) {
    if (!control.labels?.length && !control.getAttribute("aria-label") && !control.textContent.trim()) found.push(control.outerHTML);
  }
  return [...new Set(found)];
}

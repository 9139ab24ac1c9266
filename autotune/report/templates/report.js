"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const rows = new Map(all("#groups tbody tr").map(row => [row.dataset.g, row]));
  const card = document.getElementById("card"), canvas = document.getElementById("canvas");
  let chosen = null;

  // One group is chosen everywhere: every mark of it has its number.
  function choose(group, isShown) {
    all(".chosen").forEach(mark => mark.classList.remove("chosen"));
    all(".near").forEach(edge => edge.classList.remove("near"));
    chosen = group;
    card.hidden = group === null;
    if (group === null) { history.replaceState(null, "", location.pathname + location.search); return; }
    all(`[data-g="${group}"]`).forEach(mark => mark.classList.add("chosen"));
    all(`.from-${group}, .to-${group}`).forEach(edge => edge.classList.add("near"));
    describe(rows.get(group));
    try { history.replaceState(null, "", `#g${group}`); } catch { /* some viewers forbid it */ }
    if (isShown) bring(group);
  }

  function describe(row) {
    const head = document.createElement("h3"), close = document.createElement("button"), list = document.createElement("dl");
    head.textContent = `#${row.dataset.g} ${row.querySelector(".ops").textContent}`;
    close.textContent = "×"; close.setAttribute("aria-label", "Close"); close.addEventListener("click", () => choose(null));
    const facts = all("td", row).filter(cell => !["#", "operators"].includes(cell.dataset.label) && cell.textContent.trim() !== "–")
      .map(cell => [cell.dataset.label, cell.textContent]);
    facts.push(["predicted between", row.dataset.interval], ["reads", row.dataset.reads || "inputs"], ["made of", row.dataset.names]);
    for (const [name, value] of facts) {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name; text.textContent = value; list.append(term, text);
    }
    card.replaceChildren(head, close, list);
  }

  function shown(group) { return all(`.canvas rect.box[data-g="${group}"]`).find(box => box.getClientRects().length); }
  function bring(group) { shown(group)?.scrollIntoView({ block: "center", behavior: "auto" }); }

  document.addEventListener("click", event => {
    const mark = event.target.closest("[data-g]");
    if (mark && !dragged) choose(mark.dataset.g === chosen ? null : mark.dataset.g, false);
  });
  document.addEventListener("keydown", event => { if (event.key === "Escape") choose(null); });

  // Search: what does not match fades in drawings and leaves the tables.
  const find = document.getElementById("find"), count = document.getElementById("count");
  function matches() {
    const wanted = find.value.trim().toLowerCase(), number = wanted.match(/^#?(\d+)$/);
    return [...rows].filter(([group, row]) => number ? group === number[1] :
      `${row.querySelector(".ops").textContent} ${row.dataset.names}`.toLowerCase().includes(wanted)).map(([group]) => group);
  }
  function search() {
    const kept = new Set(matches()), isAll = find.value.trim() === "";
    all("[data-g]").forEach(mark => mark.classList.toggle("faded", !isAll && !kept.has(mark.dataset.g)));
    count.textContent = isAll ? "" : `${kept.size} of ${rows.size} groups`;
  }
  find.addEventListener("input", search);
  find.addEventListener("keydown", event => {
    if (event.key !== "Enter") return;
    const found = matches();
    if (found.length) choose(found[(found.indexOf(chosen) + 1) % found.length], true);
  });

  // Zoom and pan of the network, by its view box.
  let dragged = false, drag = null;
  const pictures = all("svg", canvas).map(svg => ({ svg, whole: svg.viewBox.baseVal, width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height }));
  const current = () => pictures.find(picture => picture.svg.getClientRects().length) || pictures[0];
  function clamp(picture) {
    const box = picture.whole;
    box.x = Math.max(0, Math.min(box.x, picture.width - box.width));
    box.y = Math.max(0, Math.min(box.y, picture.height - box.height));
    canvas.classList.toggle("zoomed", box.width < picture.width - 1);
  }
  function zoom(factor, atX, atY) {
    const picture = current(), box = picture.whole;
    const width = factor ? Math.min(picture.width, Math.max(160, box.width / factor)) : picture.width;
    const height = width / picture.width * picture.height;
    const x = atX ?? box.x + box.width / 2, y = atY ?? box.y + box.height / 2;
    box.x = x - (x - box.x) * width / box.width; box.y = y - (y - box.y) * height / box.height;
    box.width = width; box.height = height;
    clamp(picture);
  }
  all("[data-zoom]").forEach(button => button.addEventListener("click", () => zoom(Number(button.dataset.zoom))));
  function place(event) {
    const picture = current(), rect = picture.svg.getBoundingClientRect(), box = picture.whole;
    return [box.x + (event.clientX - rect.left) / rect.width * box.width, box.y + (event.clientY - rect.top) / rect.height * box.height];
  }
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault(); zoom(event.deltaY < 0 ? 1.15 : 0.87, ...place(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", event => { dragged = false; if (canvas.classList.contains("zoomed")) drag = place(event); });
  addEventListener("pointermove", event => {
    if (!drag) return;
    const picture = current(), [x, y] = place(event);
    if (Math.hypot(x - drag[0], y - drag[1]) > 4) dragged = true;
    picture.whole.x += drag[0] - x; picture.whole.y += drag[1] - y; clamp(picture);
  });
  addEventListener("pointerup", () => { drag = null; setTimeout(() => { dragged = false; }); });

  // Tables sort by a column.
  all("th[data-sort]").forEach(head => head.addEventListener("click", () => {
    const column = head.cellIndex, body = head.closest("table").tBodies[0], up = head.dataset.sort === "down";
    head.dataset.sort = up ? "up" : "down";
    const value = row => { const text = row.cells[column].dataset.value; return text === "" ? -Infinity : Number(text); };
    [...body.rows].sort((a, b) => (up ? 1 : -1) * (value(a) - value(b))).forEach(row => body.append(row));
  }));

  const asked = location.hash.match(/^#g(\d+)$/);
  if (asked && rows.has(asked[1])) choose(asked[1], true);
})();

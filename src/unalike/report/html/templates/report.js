(() => {
  "use strict";
  const state = JSON.parse(document.getElementById("state").textContent);
  const options = { renderer: "svg", ast: true, actions: false };
  const views = new Map(); // chart -> what vegaEmbed made of it
  const drawn = new Map(); // chart -> the specification on the page, as text
  const sorted = new Map(); // table -> [column, direction], kept when a table is replaced

  // Pictures

  function rows(datasets) {
    const made = {};
    for (const [name, columns] of Object.entries(datasets)) {
      const names = Object.keys(columns);
      made[name] = (columns[names[0]] ?? []).map((_, i) => Object.fromEntries(names.map((n) => [n, columns[n][i]])));
    }
    return made;
  }

  async function draw(id, spec) {
    const place = document.getElementById(id);
    const text = JSON.stringify(spec);
    if (!place || (drawn.get(id) === text && place.querySelector("svg"))) return;
    const fresh = document.createElement("div");
    fresh.className = "canvas pending"; // drawn out of sight, so that nothing flickers
    place.append(fresh);
    try {
      const made = await window.vegaEmbed(fresh, { ...spec, datasets: rows(spec.datasets) }, options);
      fresh.querySelector("svg").setAttribute("aria-hidden", "true"); // its place says what it shows
      views.get(id)?.finalize();
      views.set(id, made);
      drawn.set(id, text);
      await show(id);
      for (const old of place.querySelectorAll(".canvas:not(.pending)")) old.remove();
      fresh.classList.remove("pending");
    } catch (error) {
      fresh.textContent = "This chart could not be drawn.";
      fresh.classList.remove("pending");
      console.error(id, error);
    }
  }

  async function drawAll(charts) {
    for (const [id, spec] of Object.entries(charts)) await draw(id, spec);
    document.documentElement.dataset.drawn = "yes";
  }

  async function save(id, format) {
    const url = await views.get(id)?.view.toImageURL(format, format === "png" ? 2 : 1);
    if (!url) return;
    const link = document.createElement("a");
    link.href = url;
    link.download = `${id}.${format}`;
    link.click();
  }

  // Switches: which methods tables and pictures show

  const chosen = () => {
    const boxes = [...document.querySelectorAll("#switches input")];
    return boxes.filter((b) => b.checked).map((b) => b.value);
  };

  async function show(id) {
    const made = views.get(id);
    const can = (made.spec.params ?? []).some((p) => p.name === "shown");
    if (!can || !document.getElementById("switches")) return;
    await made.view.signal("shown", chosen()).runAsync();
  }

  async function switchMethods() {
    if (!document.getElementById("switches")) return;
    const names = new Set(chosen());
    for (const row of document.querySelectorAll("tr[data-method]")) {
      row.classList.toggle("off", !names.has(row.dataset.method));
    }
    for (const id of views.keys()) await show(id);
  }

  // Tables

  function key(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.key === undefined) return cell.textContent;
    return cell.dataset.key === "" ? null : Number(cell.dataset.key);
  }

  function sort(table, column, direction) {
    const body = table.tBodies[0];
    const compare = (a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      if (x === null || y === null) return (x === null) - (y === null); // nothing comes last
      return direction * (typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true }));
    };
    body.append(...[...body.rows].sort(compare));
    for (const [i, head] of [...table.tHead.rows[0].cells].entries()) {
      const here = direction > 0 ? "ascending" : "descending";
      head.setAttribute("aria-sort", i === column ? here : "none");
    }
    sorted.set(table.id, [column, direction]);
  }

  function sortBy(button) {
    const head = button.closest("th");
    const was = head.getAttribute("aria-sort");
    const first = head.classList.contains("number") ? -1 : 1; // the largest numbers first
    const direction = was === "none" ? first : was === "ascending" ? -1 : 1;
    sort(head.closest("table"), head.cellIndex, direction);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.closest("table.sortable")) sortBy(button);
    else if (button.dataset.format) save(button.parentElement.dataset.chart, button.dataset.format);
  });
  document.getElementById("switches")?.addEventListener("change", switchMethods);
  document.getElementById("switches")?.addEventListener("submit", (e) => e.preventDefault());

  // Live: ask for what is new, put it in place, keep what the reader has opened and sorted

  function replace(id, html) {
    const section = document.getElementById(id);
    if (!section) return window.location.reload();
    const stops = () => [...section.querySelectorAll("a, button, summary, [tabindex]")];
    const focused = stops().indexOf(document.activeElement);
    const open = [...section.querySelectorAll("details")].map((d) => d.open);
    const charts = new Map([...section.querySelectorAll(".chart")].map((c) => [c.id, [...c.children]]));
    section.innerHTML = html;
    for (const chart of section.querySelectorAll(".chart")) chart.append(...(charts.get(chart.id) ?? []));
    section.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? false; });
    for (const table of section.querySelectorAll("table.sortable")) {
      if (sorted.has(table.id)) sort(table, ...sorted.get(table.id));
    }
    if (focused >= 0) stops()[focused]?.focus({ preventScroll: true });
  }

  const shownHtml = new Map();

  async function update(version) {
    let wait = 1500;
    try {
      const answer = await fetch(`state?after=${encodeURIComponent(version)}`, { cache: "no-store" });
      if (answer.status >= 400) throw new Error(await answer.text());
      if (answer.status === 200) {
        const news = await answer.json();
        if (JSON.stringify(news.methods) !== JSON.stringify(state.methods)) return window.location.reload();
        document.getElementById("status").textContent = news.status;
        const made = document.getElementById("made");
        if (made) made.textContent = news.made;
        for (const [id, html] of Object.entries(news.sections)) {
          if (shownHtml.get(id) !== html) replace(id, html);
          shownHtml.set(id, html);
        }
        await drawAll(news.charts);
        await switchMethods();
        version = news.version;
        document.documentElement.dataset.version = version;
        if (news.finished) return;
      }
    } catch (error) {
      document.getElementById("status").textContent = `No news, this is how far it had come (${error.message}).`;
      wait = 5000;
    }
    window.setTimeout(update, wait, version);
  }

  drawAll(state.charts).then(() => { if (state.live) update(state.version); });
})();

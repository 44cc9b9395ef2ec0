// Draw the report's figures: fit them to the window, switch light and dark, connect the sliders over rounds, hide
// runs by their legends, zoom, sort tables, and follow the runs of a live report.
"use strict";
(() => {
  let data = JSON.parse(document.getElementById("eunoe-data").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();
  const papers = new Map();
  const specs = new Map();
  const positions = new Map();
  const hidden = new Set();

  const setTheme = (theme) => {
    root.dataset.theme = theme;
    document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  };

  // The names of runs share the width of a legend; on a narrow screen they are stacked.
  const fitLegends = (node, width) => {
    if (!node || typeof node !== "object") return;
    if ("labelLimit" in node && node.orient === "top") {
      if (width < 480) node.columns = 1;
      node.labelLimit = (width - 110) / node.columns;
    }
    Object.values(node).forEach((inner) => fitLegends(inner, width));
  };

  const units = (spec) => (spec.concat ?? spec.layer ?? []).flatMap(units).concat(spec.mark ? [spec] : []);
  const colored = (unit) => unit.encoding?.color?.field === "run";

  // The runs of a figure's legend, in order.
  const legend = (spec) => {
    const color = units(spec).find((unit) => colored(unit) && unit.encoding.color.legend)?.encoding.color;
    return color ? (color.legend.values ?? color.scale.domain) : [];
  };

  // Leave out hidden runs, and let single charts be moved and zoomed.
  const interact = (spec) => {
    const lines = units(spec).filter(colored);
    if (legend(spec).length) {
      spec.params = [...(spec.params ?? []), { name: "hidden", value: [...hidden] }];
      for (const unit of lines) {
        unit.transform = [{ filter: "indexof(hidden, datum.run) < 0" }, ...(unit.transform ?? [])];
      }
    }
    if (spec.layer && lines[0]?.encoding.x?.type === "quantitative") {
      const select = { type: "interval", zoom: "wheel![event.ctrlKey]" };
      lines[0].params = [{ name: "zoom", select, bind: "scales" }];
      for (const unit of lines) unit.mark.clip = true;
    }
  };

  // Mark hidden runs in legends and tables.
  const markHidden = () => {
    for (const figure of data.figures) {
      const names = legend(figure.spec);
      document.querySelectorAll(`#chart-${figure.name} .role-legend-label text`).forEach((label, at) => {
        label.classList.toggle("hidden-run", hidden.has(names[at]));
      });
    }
    document.querySelectorAll("#summary tbody th").forEach((name) => {
      name.classList.toggle("hidden-run", hidden.has(name.textContent));
    });
  };

  const toggle = async (name) => {
    if (!hidden.delete(name)) hidden.add(name);
    for (const figure of data.figures.filter((figure) => legend(figure.spec).length)) {
      for (const drawn of [views, papers]) {
        await drawn.get(figure.name)?.view.signal("hidden", [...hidden]).runAsync();
      }
    }
    markHidden();
  };

  // Lay out the panels of a figure in as many columns as fit; they share the width.
  const fit = (figure, width) => {
    const spec = structuredClone(figure.spec);
    interact(spec);
    fitLegends(spec, width);
    if (width < 480) spec.config = { title: { limit: width - 60 } };
    if (spec.facet) {
      spec.spec.width = Math.max(200, (width - 60) / spec.columns - 90);
      return spec;
    }
    if (!spec.concat) {
      spec.width = Math.max(200, width - 10);
      spec.height = Math.min(300, Math.max(220, width * 0.5));
      spec.autosize = { type: "fit-x", contains: "padding" };
      return spec;
    }
    const margin = 80;
    const widest = Math.max(...spec.concat.map((panel) => panel.width));
    let columns = Math.max(1, Math.min(spec.columns, Math.floor(width / (widest * 0.7 + margin))));
    // Three panels that belong together are in one row or in one column.
    if (spec.columns === 3 && columns === 2) columns = 1;
    const inside = spec.concat.slice(0, columns).reduce((sum, panel) => sum + panel.width, 0);
    const scale = Math.min(2.6, Math.max(0.5, (width - 30 - columns * margin) / inside));
    spec.columns = columns;
    for (const panel of spec.concat) {
      const square = panel.width === panel.height;
      panel.width = Math.round(panel.width * scale);
      if (square) panel.height = Math.min(panel.width, 420);
      if (square) panel.width = panel.height;
    }
    return spec;
  };

  const embed = (place, figure, theme) =>
    vegaEmbed(place, structuredClone(specs.get(figure.name)), {
      mode: "vega-lite",
      renderer: "svg",
      config: data.config[theme],
      tooltip: { theme },
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: figure.name,
      scaleFactor: { png: 3 },
    });

  const draw = async (figure, spare = 0) => {
    const place = document.getElementById(`chart-${figure.name}`);
    const spec = fit(figure, place.clientWidth - spare);
    if (positions.has(figure.name)) {
      spec.params.find((param) => param.name === "probe").value = positions.get(figure.name);
    }
    views.get(figure.name)?.finalize();
    specs.set(figure.name, spec);
    views.set(figure.name, await embed(place, figure, root.dataset.theme));
    // Long labels make the panels narrower.
    const over = place.scrollWidth - place.clientWidth;
    if (over > 0 && !spare) await draw(figure, over);
  };

  // Printing does not wait for a redraw, so light figures are prepared in dark mode.
  const drawPapers = async () => {
    for (const figure of data.figures) {
      if (root.dataset.theme !== "dark") return;
      papers.get(figure.name)?.finalize();
      papers.set(figure.name, await embed(document.getElementById(`paper-${figure.name}`), figure, "light"));
    }
  };

  const drawAll = async () => {
    const now = data;
    for (const figure of now.figures) {
      if (now !== data) return;
      await draw(figure);
    }
    markHidden();
    root.dataset.drawn = "yes";
    await drawPapers();
  };

  const connect = (figure) => {
    const slider = document.getElementById(`slider-${figure.name}`);
    if (!slider) return;
    const shown = document.getElementById(`round-${figure.name}`);
    const move = () => {
      const at = Number(slider.value);
      positions.set(figure.name, at);
      shown.textContent = `round ${figure.rounds[at]}`;
      slider.setAttribute("aria-valuetext", shown.textContent);
      for (const drawn of [views, papers]) drawn.get(figure.name)?.view.signal("probe", at).runAsync();
    };
    slider.addEventListener("input", move);
    let timer = null;
    const play = document.getElementById(`play-${figure.name}`);
    play.addEventListener("click", () => {
      if (timer) {
        clearInterval(timer);
        timer = null;
      } else {
        if (slider.value === slider.max) slider.value = "0";
        timer = setInterval(() => {
          if (slider.value === slider.max) {
            clearInterval(timer);
            timer = null;
            play.textContent = "Play";
            return;
          }
          slider.value = String(Number(slider.value) + 1);
          move();
        }, 700);
        move();
      }
      play.textContent = timer ? "Stop" : "Play";
    });
  };

  const start = () => {
    data.figures.forEach((figure) => {
      connect(figure);
      const place = document.getElementById(`chart-${figure.name}`);
      place.addEventListener("click", (event) => {
        const at = ["symbol path", "label text"].map((part) =>
          [...place.querySelectorAll(`.role-legend-${part}`)].indexOf(event.target),
        );
        const name = legend(figure.spec)[Math.max(...at)];
        if (name !== undefined) toggle(name);
      });
    });
    document.querySelectorAll("main table").forEach((table) => {
      table.classList.add("sortable");
      table.querySelectorAll("thead th").forEach((heading, column) => {
        heading.tabIndex = 0;
        heading.addEventListener("click", () => sort(table, heading, column));
        heading.addEventListener("keydown", (event) => event.key === "Enter" && sort(table, heading, column));
      });
    });
    return drawAll();
  };

  // Numbers sort by value, from the largest on at the first click; text sorts from A to Z.
  const sort = (table, heading, column) => {
    const text = (row) => row.cells[column].textContent.trim();
    const number = (row) => parseFloat(text(row).replaceAll(",", ""));
    const rows = [...table.tBodies[0].rows];
    const numeric = rows.some((row) => !Number.isNaN(number(row)));
    const first = numeric ? "descending" : "ascending";
    const other = numeric ? "ascending" : "descending";
    const order = heading.getAttribute("aria-sort") === first ? other : first;
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => (Number.isNaN(number(row)) ? -Infinity * sign : sign * number(row));
    rows.sort((a, b) => (numeric ? value(a) - value(b) || 0 : sign * text(a).localeCompare(text(b))));
    table.querySelectorAll("thead th").forEach((each) => each.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    table.tBodies[0].append(...rows);
  };

  // Put a newer version of the page in place of this one; a figure stays until it is drawn again.
  const update = async (page) => {
    const next = new DOMParser().parseFromString(page, "text/html");
    data = JSON.parse(next.getElementById("eunoe-data").textContent);
    for (const place of next.querySelectorAll(".chart")) {
      const old = document.getElementById(place.id);
      if (old) place.append(...old.childNodes);
    }
    next.getElementById("live").replaceWith(document.getElementById("live"));
    document.querySelector("main").replaceWith(next.querySelector("main"));
    const theme = document.getElementById("theme");
    document.querySelector(".lead").replaceWith(next.querySelector(".lead"));
    document.querySelector("nav").replaceChildren(...next.querySelector("nav").childNodes);
    document.getElementById("theme").replaceWith(theme);
    await start();
  };

  const follow = async () => {
    const live = document.getElementById("live");
    try {
      const answer = await fetch("status");
      if (!answer.ok) throw new Error(await answer.text());
      const status = await answer.json();
      live.innerHTML = status.html;
      if (status.version !== data.live) await update(await (await fetch("/")).text());
    } catch (error) {
      live.textContent = `This is the last report; the server does not answer (${error.message}).`;
    }
    setTimeout(follow, 1000);
  };

  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", (event) => {
    setTheme(event.matches ? "dark" : "light");
    drawAll();
  });
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    drawAll();
  });
  let width = window.innerWidth;
  let waiting = null;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 150);
  });
  start().then(() => data.live && follow());
})();

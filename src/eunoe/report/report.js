// Draw the report's figures: fit them to the window, switch light and dark, and connect the sliders over rounds.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("eunoe-data").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();
  const papers = new Map();
  const specs = new Map();
  const positions = new Map();

  const setTheme = (theme) => {
    root.dataset.theme = theme;
    document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  };

  // On a narrow screen the names of runs are stacked and truncated to its width.
  const narrow = (node, width) => {
    if (!node || typeof node !== "object") return;
    if ("labelLimit" in node && node.orient === "top") Object.assign(node, { columns: 1, labelLimit: width - 110 });
    Object.values(node).forEach((inner) => narrow(inner, width));
  };

  // Lay out the panels of a figure in as many columns as fit; they share the width.
  const fit = (figure, width) => {
    const spec = structuredClone(figure.spec);
    if (width < 480) {
      narrow(spec, width);
      spec.config = { title: { limit: width - 60 } };
    }
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
    for (const figure of data.figures) await draw(figure);
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
  data.figures.forEach(connect);
  drawAll();
  if (data.live) {
    setInterval(async () => {
      const answer = await fetch("version").catch(() => null);
      if (answer?.ok && (await answer.text()) !== data.live) location.reload();
    }, 2000);
  }
})();

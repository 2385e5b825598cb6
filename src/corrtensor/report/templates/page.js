(() => {
  const read = (id) => {
    const holder = document.getElementById(id);
    return holder ? JSON.parse(holder.textContent) : null;
  };
  const data = read("data");
  const said = document.getElementById("said");

  // The table: a heading sorts by its column, a second time the other way round.
  const body = document.querySelector("tbody");
  const headings = [...document.querySelectorAll("thead th")];
  const words = new Intl.Collator(undefined, { numeric: true });
  for (const sorter of document.querySelectorAll("thead button")) {
    sorter.addEventListener("click", () => {
      const heading = sorter.closest("th");
      const { key, kind, first } = sorter.dataset;
      const opposite = { ascending: "descending", descending: "ascending" };
      const way = opposite[heading.getAttribute("aria-sort")] || first;
      const value = (row) => row.querySelector("." + CSS.escape(key)).dataset.value;
      const compare = kind === "text" ? words.compare : (a, b) => Number(a) - Number(b);
      const sign = way === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [value(row), row]);
      rows.sort((a, b) => sign * compare(a[0], b[0]));
      body.append(...rows.map((entry) => entry[1]));
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", way);
      said.textContent = "Sorted by " + sorter.textContent.trim() + ", " + way;
    });
  }

  const more = document.getElementById("more");
  if (body.rows.length > 10) {
    body.classList.add("short");
    more.hidden = false;
    more.addEventListener("click", () => {
      const next = body.rows[10];
      body.classList.remove("short");
      more.hidden = true;
      next.tabIndex = -1;
      next.focus({ preventScroll: true });
    });
  }

  // The slider over ranks.
  const ladder = read("ladder-data");
  const slider = document.getElementById("rank");
  const output = document.getElementById("rank-words");
  const made = [...document.querySelectorAll(".ladder .made")];
  const showRanks = () => {
    const step = Number(slider.value);
    const share = ladder.explained[step].toFixed(1) + " % of the variance explained";
    output.textContent = ladder.steps[step] + ": " + share;
    slider.setAttribute("aria-valuetext", ladder.steps[step] + ", " + share);
    made.forEach((picture, k) => {
      picture.src = ladder.made[k][step];
      picture.alt = "Reconstruction of " + picture.dataset.name + " at ranks " + ladder.steps[step];
    });
  };
  slider.addEventListener("input", showRanks);
  showRanks();

  // Charts: the nearest sample to the pointer, or the next one by the keyboard.
  const tip = document.getElementById("tip");
  const tile = tip.querySelector(".tile");
  const { atlas } = data;
  const zoom = 72 / Math.max(atlas.width, atlas.height);
  tile.style.width = atlas.width * zoom + "px";
  tile.style.height = atlas.height * zoom + "px";
  tile.style.backgroundImage = "url(" + atlas.uri + ")";
  tile.style.backgroundSize = atlas.across * atlas.width * zoom + "px " + atlas.down * atlas.height * zoom + "px";

  const facts = (k) => {
    const told = [];
    if (data.weight) told.push("weight " + data.weight[k]);
    told.push("residual " + data.residual[k], "score " + data.score[k]);
    if (data.label) told.push("label " + data.label[k]);
    return told.join(", ");
  };
  const fill = (k) => {
    const column = k % atlas.across;
    const row = Math.floor(k / atlas.across);
    tile.style.backgroundPosition = -column * atlas.width * zoom + "px " + -row * atlas.height * zoom + "px";
    tip.querySelector("strong").textContent = data.name[k];
    tip.querySelector("span").textContent = facts(k);
  };
  const placeTip = (x, y) => {
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = x + 16 + box.width > innerWidth - 8;
    const left = right ? Math.max(8, Math.min(x - 16 - box.width, innerWidth - 8 - box.width)) : x + 16;
    const top = Math.min(Math.max(8, y - box.height / 2), innerHeight - box.height - 8);
    tip.style.left = left + "px";
    tip.style.top = top + "px";
  };

  const NEAR = 16;
  for (const chart of document.querySelectorAll(".visited")) {
    const [xs, ys] = data.places[chart.dataset.chart];
    const svg = chart.querySelector("svg");
    const ring = chart.querySelector(".ring");
    let at = -1;
    const toScreen = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    const hide = () => {
      tip.hidden = true;
      ring.classList.remove("on");
    };
    const show = (k) => {
      ring.setAttribute("cx", xs[k]);
      ring.setAttribute("cy", ys[k]);
      ring.classList.add("on");
      fill(k);
      const place = toScreen(xs[k], ys[k]);
      placeTip(place.x, place.y);
    };
    const visit = (place) => {
      at = Math.min(Math.max(place, 0), data.order.length - 1);
      const k = data.order[at];
      chart.setAttribute("aria-valuenow", at + 1);
      chart.setAttribute("aria-valuetext", data.name[k] + ", " + facts(k));
      show(k);
    };
    const nearest = (event) => {
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      let best = -1;
      let least = NEAR * NEAR;
      for (let k = 0; k < xs.length; k++) {
        const d = (xs[k] - p.x) ** 2 + (ys[k] - p.y) ** 2;
        if (d < least) [best, least] = [k, d];
      }
      return best;
    };
    const point = (event) => {
      const k = nearest(event);
      if (k < 0) hide();
      else show(k);
    };
    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("blur", hide);
    chart.addEventListener("focus", () => {
      if (chart.matches(":focus-visible")) visit(Math.max(at, 0));
    });
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    chart.addEventListener("keydown", (event) => {
      if (event.key in steps) visit(at + steps[event.key]);
      else if (event.key === "Home") visit(0);
      else if (event.key === "End") visit(data.order.length - 1);
      else if (event.key === "Escape") hide();
      else return;
      event.preventDefault();
    });
  }
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();

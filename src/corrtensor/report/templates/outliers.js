(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const said = document.getElementById("said");
  const slider = document.getElementById("cut-at");
  const words = document.getElementById("cut-words");
  const back = document.getElementById("cut-back");
  const svg = document.querySelector(".cut-chart svg");
  const line = svg.querySelector(".cut");
  const grip = svg.querySelector(".grip");
  const bars = [...svg.querySelectorAll("rect")];
  const cards = [...document.querySelectorAll(".gallery li")];
  const list = document.getElementById("list");
  // Samples come by falling score. What was ticked or unticked by hand stays so.
  const byHand = new Map();
  let cut = data.cut;

  const isChosen = (k) => (byHand.has(k) ? byHand.get(k) : data.score[k] > cut);
  const chosen = () => data.score.map((_, k) => k).filter(isChosen);
  const table = {
    "copy-text": (rows) => rows.map((k) => data.name[k]).join("\n"),
    "copy-csv": (rows) => {
      const cell = (text) => '"' + String(text).replaceAll('"', '""') + '"';
      const told = rows.map((k) => [cell(data.cell[k]), data.score[k], cell(data.why[k])].join(","));
      return ["name,score,reason", ...told].join("\n");
    },
  };
  const count = (n) => n + " of " + data.score.length + " above";
  const show = () => {
    const share = Math.min(cut / data.high, 1);
    const x = data.left + share * (data.right - data.left);
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    grip.setAttribute("cx", x);
    const above = data.score.filter((s) => s > cut).length;
    words.textContent = cut.toFixed(2) + ": " + count(above);
    slider.setAttribute("aria-valuetext", words.textContent);
    document.getElementById("flagged").textContent = above.toLocaleString("en");
    for (const bar of bars) bar.classList.toggle("over", Number(bar.dataset.low) >= cut);
    for (const card of cards) {
      const k = Number(card.dataset.index);
      card.querySelector("input").checked = isChosen(k);
      card.classList.toggle("within", !isChosen(k));
    }
    back.hidden = cut === data.cut;
    list.value = table["copy-text"](chosen());
  };
  const setCut = (value) => {
    cut = Math.min(Math.max(value, 0), data.high);
    slider.value = cut;
    show();
  };
  slider.addEventListener("input", () => {
    cut = Number(slider.value);
    show();
  });
  back.addEventListener("click", () => {
    setCut(data.cut);
    slider.focus();
  });
  const drag = (event) => {
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    setCut(((p.x - data.left) / (data.right - data.left)) * data.high);
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    drag(event);
  });
  svg.addEventListener("pointermove", (event) => {
    if (svg.hasPointerCapture(event.pointerId)) drag(event);
  });

  for (const card of cards) {
    card.querySelector("input").addEventListener("change", (event) => {
      byHand.set(Number(card.dataset.index), event.target.checked);
      show();
    });
  }

  const chips = [...document.querySelectorAll(".chips button")];
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      for (const other of chips) other.setAttribute("aria-pressed", String(other === chip));
      const reason = chip.dataset.reason;
      let shown = 0;
      for (const card of cards) {
        card.hidden = reason !== "" && !card.dataset.reasons.split("|").includes(reason);
        shown += card.hidden ? 0 : 1;
      }
      said.textContent = shown + " shown";
    });
  }

  for (const [id, text] of Object.entries(table)) {
    const button = document.getElementById(id);
    button.hidden = false;
    button.addEventListener("click", async () => {
      const rows = chosen();
      list.value = text(rows);
      try {
        await navigator.clipboard.writeText(list.value);
      } catch {
        list.focus();
        list.select();
        document.execCommand("copy");
      }
      said.textContent = rows.length + " names copied";
    });
  }
  setCut(data.cut);
})();

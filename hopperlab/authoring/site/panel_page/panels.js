// SPDX-License-Identifier: Apache-2.0
// Moves the panels of a page without a server: each is a <div class="hl-panel">, and what it shows under each setting stands in hopperlabPanels[name],
// which its own script has set. Controls are the browser's own (range, select), so that keyboard and screen readers know them.
"use strict";
(() => {
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // One control: a slider or a list over the values there are; text where there is only one. `moved` is called with the index of the value.
  const control = (what, id, fixed, moved) => {
    const label = make("label", {htmlFor: id, textContent: what.label});
    const row = make("div", {className: "hl-panel-control"}, label);
    if (what.values.length === 1) {
      row.replaceChildren(make("span", {textContent: what.label}), make("span", {className: "hl-panel-fixed", textContent: `${what.values[0]} ${fixed}`}));
    } else if (what.kind === "slider") {
      const value = make("output", {htmlFor: id, textContent: what.values[what.start]});
      const input = make("input", {type: "range", id, min: 0, max: what.values.length - 1, step: 1, value: what.start});
      input.setAttribute("aria-valuetext", what.values[what.start]);
      input.addEventListener("input", () => {
        value.textContent = what.values[input.value];
        input.setAttribute("aria-valuetext", what.values[input.value]);
        moved(Number(input.value));
      });
      row.append(input, value);
    } else {
      const list = make("select", {id}, ...what.values.map((text) => make("option", {textContent: text})));
      list.selectedIndex = what.start;
      list.addEventListener("change", () => moved(list.selectedIndex));
      row.append(list);
    }
    return row;
  };

  const build = (panel, data) => {
    const [controls, status, figure, words] = ["controls", "status", "figure", "words"].map((part) => panel.querySelector(`.hl-panel-${part}`));
    const chosen = data.controls.map((what) => what.start);
    let turn = 0;

    // The outcome of the chosen values. The status line follows the picture: what is said is what is seen.
    const show = async () => {
      const mine = ++turn;
      const number = data.controls.reduce((sum, what, i) => sum * what.values.length + chosen[i], 0);
      const [picture, width, lines] = data.outcomes[number];
      const text = lines.map((line) => data.lines[line]).join("\n");
      if (picture >= 0) {
        const next = make("img", {src: `${panel.dataset.files}/pictures/${data.pictures[picture]}`, width, alt: text.replace(/\s+/g, " ").slice(0, 400)});
        await next.decode().catch(() => {});
        if (mine !== turn) return;
        figure.replaceChildren(next);
      }
      const values = data.controls.map((what, i) => `${what.label} ${what.values[chosen[i]]}`).join(", ");
      status.textContent = picture >= 0 ? `${panel.dataset.launched} ${values}` : `${panel.dataset.refused} ${text}`;
      status.classList.toggle("hl-panel-refused", picture < 0);
      if (picture >= 0) words.querySelector("pre").textContent = text;
      for (const part of [figure, words]) part.classList.toggle("hl-panel-hidden", picture < 0);
      panel.dataset.setting = number;
    };
    controls.append(...data.controls.map((what, i) => control(what, `${panel.id}-${i}`, panel.dataset.fixed, (index) => { chosen[i] = index; show(); })));
    panel.dataset.ready = "yes";
    show();
  };

  for (const panel of document.querySelectorAll(".hl-panel:not([data-ready])")) {
    const data = (window.hopperlabPanels || {})[panel.dataset.name];
    if (data) build(panel, data);
  }
})();

// SPDX-License-Identifier: Apache-2.0
// Finds words in SEARCH_TEXTS ([page, title, anchor, heading, words] a section; search-texts.js): sections that hold all of them, best first.
"use strict";
{
  const MOST = 60;          // results shown
  const AROUND = 110;       // characters of an excerpt on each side of what was found
  const rows = SEARCH_TEXTS.map(([page, title, anchor, heading, words]) =>
    ({page, title, anchor, heading, words, head: `${title} ${heading}`.toLowerCase(), low: words.toLowerCase()}));

  // A plural finds its singular too.
  const wordsOf = (query) => query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.length > 4 ? word.replace(/s$/, "") : word);
  const count = (text, word) => text.split(word).length - 1;

  function score(row, words, phrase) {
    if (!words.every((word) => row.head.includes(word) || row.low.includes(word))) return 0;
    const each = words.reduce((sum, word) => sum + 12 * row.heading.toLowerCase().includes(word) + 4 * row.head.includes(word) + Math.min(6, count(row.low, word)), 0);
    return each + 20 * row.heading.toLowerCase().includes(phrase) + 8 * row.low.includes(phrase);
  }

  // The text around the phrase or the first word, with every word marked.
  function excerpt(row, words, phrase) {
    const places = [phrase, ...words].map((word) => row.low.indexOf(word));
    const at = Math.max(0, places.find((place) => place >= 0) ?? 0);
    const begin = at < AROUND ? 0 : row.words.lastIndexOf(" ", at - AROUND) + 1, end = at + 2 * AROUND;
    const text = (begin ? "… " : "") + row.words.slice(begin, end) + (end < row.words.length ? " …" : "");
    const paragraph = document.createElement("p");
    const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
    text.split(pattern).forEach((piece, index) => {
      paragraph.append(index % 2 ? Object.assign(document.createElement("mark"), {textContent: piece}) : piece);
    });
    return paragraph;
  }

  function shown(row, words, phrase) {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = `${row.page}.html${row.anchor ? "#" + row.anchor : ""}`;
    link.textContent = row.heading && row.heading !== row.title ? `${row.title} › ${row.heading}` : row.title;
    item.append(link, excerpt(row, words, phrase));
    return item;
  }

  function find(query) {
    const words = wordsOf(query), phrase = query.trim().toLowerCase();
    const status = document.getElementById("search-status"), list = document.getElementById("search-found");
    list.replaceChildren();
    status.textContent = "";
    if (!words.length) return;
    const found = rows.map((row) => [score(row, words, phrase), row]).filter(([points]) => points).sort((a, b) => b[0] - a[0]);
    const pages = new Set(found.map(([, row]) => row.page)).size;
    const chinese = document.documentElement.lang.startsWith("zh");
    if (chinese) status.textContent = !found.length ? `没有找到“${query}”：请减少词语，或只写词的一部分。` : `${pages} 个页面，${found.length} 个小节` + (found.length > MOST ? `；最相关的 ${MOST} 个：` : "");
    else status.textContent = !found.length ? `Nothing found for ${query}: try fewer words, or part of a word.` :
      `${found.length} ${found.length === 1 ? "section" : "sections"} on ${pages} ${pages === 1 ? "page" : "pages"}` + (found.length > MOST ? `; the best ${MOST}:` : "");
    list.append(...found.slice(0, MOST).map(([, row]) => shown(row, words, phrase)));
  }

  const field = document.getElementById("search-words");
  field.value = new URLSearchParams(window.location.search).get("q") ?? "";
  field.addEventListener("input", () => find(field.value));
  document.getElementById("search-form").addEventListener("submit", (event) => event.preventDefault());
  find(field.value);
}

// Updates an open page: the server sends changed parts, and this script replaces them.
// Without the script, a page shows the state at the time of the request.
"use strict";

(() => {
  const SILENCE_MS = 15000; // The server sends something every five seconds.
  const AGAIN_MS = 2000;
  const from = document.body.dataset.live;
  const stale = document.getElementById("stale");
  const pulse = document.getElementById("pulse");
  if (!from || !window.EventSource) return;

  let heard = Date.now();
  let tried = Date.now();
  let source = null;
  let signedOut = false;

  // Whether the user has changed the value from the server.
  const isChanged = (field) => {
    if (field.tagName === "SELECT") {
      return field.selectedIndex !== Math.max([...field.options].findIndex((one) => one.defaultSelected), 0);
    }
    if (field.type === "checkbox") return field.checked !== field.defaultChecked;
    return field.value !== field.defaultValue;
  };

  // A part with changed fields is not replaced until the changes are submitted or undone.
  const isTypedIn = (part) =>
    [...part.querySelectorAll("input, select")].some((field) =>
      field.type !== "hidden" && (field === document.activeElement || isChanged(field)));

  const waiting = new Map();

  // The focus stays on the same button of the same form in the new content.
  const focusOf = (part) => {
    const active = document.activeElement;
    if (!part.contains(active)) return null;
    const all = [...part.querySelectorAll("a, button, summary")];
    const label = active.textContent;
    const nth = all.filter((one) => one.textContent === label).indexOf(active);
    return (now) => {
      const same = [...now.querySelectorAll("a, button, summary")].filter((one) => one.textContent === label);
      (same[nth] || document.getElementById("main")).focus({ preventScroll: true });
    };
  };

  const put = (id, html) => {
    const part = document.getElementById(id);
    if (!part) return;
    if (isTypedIn(part)) {
      waiting.set(id, html);
      return;
    }
    waiting.delete(id);
    const made = document.createElement("template");
    made.innerHTML = html;
    const open = new Set([...part.querySelectorAll("details[open]")].map((one) => one.id));
    for (const one of made.content.querySelectorAll("details")) one.open = open.has(one.id);
    const text = made.innerHTML;
    if (text.trim() === part.innerHTML.trim()) return;
    const refocus = focusOf(part);
    part.replaceChildren(made.content);
    if (refocus) refocus(part);
  };

  // The page of a removed object is another page, with other parts.
  const place = (ids) => {
    const main = document.getElementById("main");
    for (const part of main.querySelectorAll(":scope > .part")) {
      if (ids.includes(part.id)) continue;
      waiting.delete(part.id);
      part.remove();
    }
    for (const id of ids) {
      if (document.getElementById(id)) continue;
      const part = document.createElement("section");
      part.id = id;
      part.className = "part";
      main.append(part);
    }
  };

  const clock = () => new Date().toLocaleTimeString();

  const alive = () => {
    heard = Date.now();
    stale.hidden = true;
    pulse.textContent = "Live.";
  };

  const notice = (text, link) => {
    if (!stale.hidden && stale.dataset.text === text) return;
    stale.dataset.text = text;
    stale.replaceChildren(text + " ");
    if (link) {
      const to = document.createElement("a");
      to.href = link;
      to.textContent = "Sign in";
      stale.append(to);
    }
    stale.hidden = false;
    pulse.textContent = text;
  };

  const listen = () => {
    if (source) source.close();
    tried = Date.now();
    source = new EventSource(from);
    source.addEventListener("parts", (event) => {
      const told = JSON.parse(event.data);
      document.title = told.title;
      place(told.ids);
      for (const [id, html] of Object.entries(told.parts)) put(id, html);
      alive();
    });
    source.addEventListener("pulse", alive);
    source.addEventListener("signed-out", () => {
      signedOut = true;
      source.close();
      const back = encodeURIComponent(location.pathname + location.search);
      notice("You are signed out; this page shows the state at " + clock() + ". A session ends " +
        "when the controller restarts, and after half an hour without use. Sign in to return here.", "/console/sign-in?ended=yes&back=" + back);
    });
    source.onerror = () => {
      // The browser retries automatically, unless the response was not a stream.
      if (source.readyState === EventSource.CLOSED && !signedOut) setTimeout(listen, AGAIN_MS);
    };
  };

  setInterval(() => {
    for (const [id, html] of [...waiting]) put(id, html);
    if (signedOut || Date.now() - heard < SILENCE_MS) return;
    // A dead connection, for example after suspend, reports no error.
    if (Date.now() - tried > SILENCE_MS) listen();
    const since = new Date(heard).toLocaleTimeString();
    notice("This page is stale: no contact with the controller since " + since + ".");
  }, 1000);

  listen();
})();
